"""A batch that was interrupted so long ago that the log no longer recognises its appends."""

from typing import Any

import pytest

import strandline as sl
from strandline.spark.sink import committing, rolling, staging
from strandline.values import InvalidError
from tests.processes.sinks import flawed
from tests.spark.as_sink import Sink, events, numbers_in
from tests.spark.test_sink import interrupt


@pytest.fixture
def sink(log: sl.Log, url: str) -> Sink:
    log.create_topic("t", partitions=3)
    return Sink(log, url)


def finish_weeks_later(sink: Sink, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Finish a batch in a log that takes its keys for new ones, as it does after a week."""
    interrupt(monkeypatch, steps, lambda: sink.write(0, events(range(90))))
    append = type(sink.log).append_many

    def forgetful(*args: Any, idempotency_key: str, **more: Any) -> Any:
        return append(*args, idempotency_key=f"{idempotency_key} later", **more)

    with monkeypatch.context() as patch:
        patch.setattr(rolling, "_AGE_SURE_US", -1)
        patch.setattr(type(sink.log), "append_many", forgetful)
        sink.log.append("t", sl.Event("n", {"n": -1}), partition=0)
        sink.write(0, events(range(90)))

    assert numbers_in(sink.log) == [-1, *range(90)]


@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("group_bytes", [1, rolling.GROUP_BYTES])
def test_a_batch_is_finished_when_the_log_no_longer_knows_its_appends(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, steps: int, group_bytes: int
) -> None:
    monkeypatch.setattr(rolling, "GROUP_BYTES", group_bytes)
    finish_weeks_later(sink, monkeypatch, steps)


def finish_after_what_was_noted_is_trimmed(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finish a batch whose first partition was filled, noted and trimmed since."""
    monkeypatch.setattr(rolling, "GROUP_BYTES", 1)
    interrupt(monkeypatch, 1, lambda: sink.write(0, events(range(90))))
    stored = [record.payload["n"] for record in sink.log.read("t", 0, 0)]
    sink.log.trim("t", 0, len(stored))
    monkeypatch.setattr(rolling, "_AGE_SURE_US", -1)

    sink.write(0, events(range(90)))

    assert sink.log.marks("t", 0).high == len(stored)
    found = [record.payload["n"] for p in (1, 2) for record in sink.log.read("t", p, 0)]
    assert sorted(found) == sorted({*range(90)} - {*stored})


def test_what_was_noted_is_not_looked_for_again(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish_after_what_was_noted_is_trimmed(sink, monkeypatch)


def test_a_trim_catches_that_progress_is_not_stored(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    with flawed("progress that is not stored"), pytest.raises(InvalidError, match="was trimmed"):
        finish_after_what_was_noted_is_trimmed(sink, monkeypatch)


def test_chunks_of_one_partition_that_are_all_in_doubt_are_found_in_their_order(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "CHUNK_ROWS", 4)
    monkeypatch.setattr(staging, "BLOCK_ROWS", 3)
    finish_weeks_later(sink, monkeypatch, 9)


def test_a_batch_is_left_to_a_person_where_its_place_was_trimmed(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(monkeypatch, 0, lambda: sink.write(0, events(range(90))))
    monkeypatch.setattr(rolling, "_AGE_SURE_US", -1)
    high = int(sink.log.marks("t", 0).high)
    sink.log.trim("t", 0, high)

    with pytest.raises(InvalidError, match="remove the file"):
        sink.write(0, events(range(90)))


def test_rows_for_a_topic_that_was_dropped_go_with_it(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(monkeypatch, 0, lambda: sink.write(0, events(range(90))))
    sink.log.drop_topic("t")
    sink.log.create_topic("t")

    sink.write(1, events(range(5)))

    assert numbers_in(sink.log) == [*range(5)]
