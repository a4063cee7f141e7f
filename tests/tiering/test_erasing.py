"""Erasing the records of a key whose records are in the tier."""

from pathlib import Path

import pytest

import strandline as sl
from strandline.tiering import ObjectStore
from strandline.values import UnavailableError
from tests.tiering.faulty_store import MemoryObjects
from tests.tiering.tiered import BACKENDS, LogOver, filled, move, opened

KEY = "k1"
COUNT = 20
OFFSETS = [each for each in range(COUNT) if each % 3 == 1]


def erased(log: sl.Log) -> list[int]:
    return [each.offset for each in log.read("t", 0, 0) if sl.is_erased(each)]


def objects_with(objects: ObjectStore, text: bytes) -> list[str]:
    """Return the objects in whose rows a key is found."""
    import pyarrow as pa  # noqa: PLC0415 - With the extra only.
    from pyarrow import parquet  # noqa: PLC0415

    found = []
    for name in objects.list(""):
        content = objects.get(name)
        assert content is not None
        if text.decode() in parquet.read_table(pa.BufferReader(content)).column("_key").to_pylist():
            found.append(name)
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_cold_records_of_a_key_are_erased_and_nothing_else_changes(
    backend: str, tmp_path: Path
) -> None:
    with opened(backend, tmp_path) as log:
        before = filled(log, COUNT)
        move(log)

        assert log.erase("t", key=KEY, dry_run=True).erased == len(OFFSETS)
        report = log.erase("t", key=KEY)

        assert report.erased == len(OFFSETS)
        assert erased(log) == OFFSETS
        after = list(log.read("t", 0, 0))
        assert [each for each in after if each.offset not in OFFSETS] == [
            each for each in before if each.offset not in OFFSETS
        ]
        assert objects_with(log.objects, KEY.encode()) == []
        assert log.erase("t", key=KEY).erased == 0
        assert sum(each.num_rows for each in log.read_batches("t", 0, 0)) == COUNT


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_proof_holds_over_what_was_erased_in_the_tier(backend: str, tmp_path: Path) -> None:
    with opened(backend, tmp_path) as log:
        log.create_topic("t", proof=True)
        log.append_many("t", [sl.Event("k", {"n": n}, key=f"k{n % 3}") for n in range(COUNT)])
        head = log.proof_head("t", 0)
        move(log)
        log.append("t", sl.Event("k", {"n": 99}, key=KEY))

        assert log.erase("t", key=KEY).erased == len(OFFSETS) + 1

        (report,) = log.verify("t", expected=[head])
        assert (report.findings, report.erased) == ((), len(OFFSETS) + 1)


def test_a_copy_of_what_is_still_local_is_replaced_and_counted_once(tmp_path: Path) -> None:
    with opened("file", tmp_path) as log:
        filled(log, COUNT)
        move(log, local_bytes=None)

        assert log.erase("t", key=KEY).erased == len(OFFSETS)

        assert objects_with(log.objects, KEY.encode()) == []
        move(log)
        assert erased(log) == OFFSETS


class FailingObjects(MemoryObjects):
    """Fails at the nth call that changes anything."""

    fails_at: int | None = None

    def _count(self) -> None:
        if self.fails_at is not None:
            self.fails_at -= 1
            if self.fails_at < 0:
                raise UnavailableError("planted")

    def put(self, name: str, content: bytes) -> str | None:
        self._count()
        return super().put(name, content)

    def delete(self, name: str) -> None:
        self._count()
        super().delete(name)


def interrupted(log: LogOver, objects: FailingObjects, at: int) -> bool:
    objects.fails_at = at
    try:
        log.erase("t", key=KEY)
    except UnavailableError:
        return True
    finally:
        objects.fails_at = None
    return False


@pytest.mark.slow
def test_interrupted_at_any_step_in_the_store_it_is_completed_by_the_next_call(
    tmp_path: Path,
) -> None:
    at, steps = 0, 0
    while True:
        objects = FailingObjects()
        folder = tmp_path / str(at)
        folder.mkdir()
        with opened("file", folder, objects) as log:
            filled(log, COUNT)
            move(log)
            was_interrupted = interrupted(log, objects, at)
            assert len(list(log.read("t", 0, 0))) == COUNT

            log.erase("t", key=KEY)

            assert erased(log) == OFFSETS
            assert objects_with(objects, KEY.encode()) == []
            assert not log.verify("t")[0].findings
            assert len(objects.list("")) == 3
        if not was_interrupted:
            break
        at, steps = at + 1, steps + 1
    assert steps == 6
