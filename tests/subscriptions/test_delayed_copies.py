"""Delayed events in copies of a log: they wait there as well, and nothing is lost or repeated."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import strandline as sl
from strandline.subscriptions import Delivery
from strandline.values.delivery_time import DELIVER_AT

FAR = datetime.now(UTC) + timedelta(days=30)


def numbers(found: list[Delivery]) -> list[int]:
    return [each.record.payload["n"] for each in found]


def filled(path: Path, *, shared: bool) -> None:
    """Make a log in which a delayed event was passed over by ten that are acked, of twelve."""
    with sl.open(f"file:{path}") as log:
        log.create_topic("jobs")
        log.append("jobs", sl.Event("job", {"n": 0}), deliver_at=FAR)
        log.append_many("jobs", [sl.Event("job", {"n": n}) for n in range(1, 13)])
        work(log, shared=shared, most=10)


def work(log: sl.Log, *, shared: bool, most: int = 100) -> list[int]:
    """Ack what there is, and return it."""
    reader = (
        log.consumer("jobs", "workers", shared=True) if shared else log.consumer("jobs", "workers")
    )
    done: list[Delivery] = []
    with reader:
        while len(done) < most and (found := reader.fetch(most, timeout_s=0)):
            reader.ack(found)
            done += found
    return numbers(done)


@pytest.mark.parametrize("shared", [False, True], ids=["group", "queue"])
@pytest.mark.parametrize("kind", ["backup", "copy"])
def test_a_copy_continues_where_the_log_was(tmp_path: Path, kind: str, shared: bool) -> None:
    filled(tmp_path / "log", shared=shared)
    if kind == "backup":
        target = f"file:{tmp_path / 'other'}"
        sl.backup(target, url=f"file:{tmp_path / 'log'}")
    else:
        target = f"sqlite:{tmp_path / 'other.db'}"
        sl.copy(f"file:{tmp_path / 'log'}", target)

    with sl.open(target) as log:
        assert work(log, shared=shared) == [11, 12]
        (first, *_) = log.read("jobs", 0, 0)
        assert DELIVER_AT in first.headers
        assert log.cursor("jobs", "workers", 0) == 0


@pytest.mark.parametrize("shared", [False, True], ids=["group", "queue"])
def test_a_log_that_was_taken_back_delivers_what_is_appended_then(
    tmp_path: Path, shared: bool
) -> None:
    filled(tmp_path / "log", shared=shared)
    sl.backup(f"file:{tmp_path / 'backup'}", url=f"file:{tmp_path / 'log'}")
    other = f"file:{tmp_path / 'other'}"
    sl.restore(f"file:{tmp_path / 'backup'}", other, until={("jobs", 0): 5})

    with sl.open(other) as log:
        log.append_many("jobs", [sl.Event("job", {"n": n}) for n in range(100, 110)])
        found = work(log, shared=shared)

    assert set(range(100, 110)) <= set(found)
    assert 0 not in found
