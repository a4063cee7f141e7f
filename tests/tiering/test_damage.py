"""What a store keeps wrong is found, and never replaces what the log has."""

from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.tiering import copying, parquet, tier
from strandline.values import CorruptError
from tests.tiering.faulty_store import MemoryObjects
from tests.tiering.test_steps import check_whole
from tests.tiering.tiered import filled, move, opened, rows


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize("change", ["flip", "cut", "gone", "other"])
@pytest.mark.parametrize("backend", ["sqlite", "file"])
def test_records_with_a_wrong_copy_stay_and_are_copied_again(
    tmp_path: Path, backend: str, change: str
) -> None:
    objects = MemoryObjects()
    with opened(backend, tmp_path, objects) as log:
        records = filled(log)
        tier(log, "t", objects, piece_records=7, include_open=True)
        damage(objects, change)

        first = move(log)

        assert first.damaged == 1
        assert log.evict("t", 0, 0) <= 7
        assert list(log.read("t", 0, 0)) == records
        second = move(log)
        assert (second.copied, second.damaged) == (1, 0)
        assert log.evict("t", 0, 0) == 20
        check_whole(log, records)


def damage(objects: MemoryObjects, change: str) -> None:
    first, second, _ = sorted(objects.objects)
    content = objects.objects[second]
    if change == "flip":
        # In the writer's name: nothing but the digest tells.
        objects.objects[second] = flipped(content, content.rindex(b"parquet-cpp"))
    elif change == "cut":
        objects.objects[second] = content[:-1]
    elif change == "gone":
        del objects.objects[second]
    else:
        objects.objects[second] = objects.objects[first]


@pytest.mark.slow
def test_any_flipped_byte_of_a_cold_object_gives_an_error_that_names_it(tmp_path: Path) -> None:
    objects = MemoryObjects()
    with opened("sqlite", tmp_path, objects) as log:
        filled(log)
        move(log)
        name = min(objects.objects)
        content = objects.objects[name]

        for at in range(0, len(content), 97):
            objects.objects[name] = flipped(content, at)
            for read in (lambda: list(log.read("t", 0, 3)), lambda: rows(log)):
                with pytest.raises(CorruptError) as caught:
                    read()
                assert name in str(caught.value.file)
        assert [r.offset for r in log.read("t", 0, 7)] == list(range(7, 20))  # The rest.
        objects.objects[name] = content

        assert len(list(log.read("t", 0, 0))) == 20


@pytest.mark.slow
def test_a_missing_cold_object_is_an_error_that_names_it(tmp_path: Path) -> None:
    objects = MemoryObjects()
    with opened("file", tmp_path, objects) as log:
        filled(log)
        move(log)
        name = min(objects.objects)
        del objects.objects[name]

        with pytest.raises(CorruptError) as caught:
            list(log.read("t", 0, 0))

        assert name in str(caught.value.file)


class ReadsBackWrong(MemoryObjects):
    """Keeps rows in another order under the right name."""

    def get(self, name: str) -> bytes | None:
        found = super().get(name)
        return None if found is None else flipped(found, 40)


def test_a_store_that_reads_back_something_else_gets_no_record_evicted(tmp_path: Path) -> None:
    with opened("file", tmp_path, ReadsBackWrong()) as log:
        records = filled(log)

        with pytest.raises(sl.UnavailableError):
            move(log)

        assert log.evict("t", 0, 0) == 0
        assert list(log.read("t", 0, 0)) == records


def test_a_copy_with_a_hole_is_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole: Any = parquet.encode

    def with_hole(batches: Any, about: Any) -> bytes:
        kept = [batch.slice(0, max(1, batch.num_rows - 1)) for batch in batches]
        content: bytes = whole(kept, about)
        return content

    with opened("file", tmp_path) as log:
        records = filled(log)
        monkeypatch.setattr(copying, "encode", with_hole)

        with pytest.raises(sl.UnavailableError):
            move(log)

        assert log.evict("t", 0, 0) == 0
        assert list(log.read("t", 0, 0)) == records


def test_verify_reads_the_copies_too(tmp_path: Path) -> None:
    objects = MemoryObjects()
    with opened("file", tmp_path, objects) as log:
        filled(log)
        move(log)
        log.append("t", sl.Event("k", 1))
        (sound,) = log.verify("t")
        assert (sound.start, sound.end, sound.records, sound.is_sound) == (0, 21, 21, True)
    name = sorted(objects.objects)[1]
    objects.objects[name] = flipped(objects.objects[name], 50)

    with opened("file", tmp_path, objects) as log:
        (report,) = log.verify("t")

        assert [finding.offset for finding in report.findings] == [7]
        assert report.records == 14


@pytest.mark.slow
def test_an_append_and_a_list_of_topics_need_no_object(tmp_path: Path) -> None:
    objects = MemoryObjects()
    with opened("file", tmp_path, objects) as log:
        filled(log, 20)
        move(log, piece_records=20)
        size = log.describe_topic("t").size_bytes
        log.trim("t", 0, 5)
        objects.objects.clear()

        assert 0 < log.describe_topic("t").size_bytes < size
        assert [run.start for run in log.segments("t", 0)] == [5]
        assert log.append("t", sl.Event("k", 1)).offset == 20
        with pytest.raises(CorruptError):
            list(log.read("t", 0, 5))
