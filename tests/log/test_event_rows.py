"""Events given as columns are stored as the same events in a list are."""

from pathlib import Path

import pyarrow as pa
import pytest

import strandline as sl
from strandline.log.event_rows import EventRows

EVENTS = [
    sl.Event("paid" if n % 2 else "made", {"n": n, "é": "x" * n}, key=None if n == 3 else f"k{n}")
    for n in range(200)
]


def rows(events: list[sl.Event]) -> EventRows:
    kinds, payloads, keys, headers, times = sl.Event.columns(events)
    arrays = [
        pa.array(keys, pa.string()),
        pa.array(kinds, pa.string()),
        pa.array(payloads, pa.binary()).cast(pa.string()),
        pa.array(headers, pa.binary()).cast(pa.string()),
        pa.array(times, pa.timestamp("us", "UTC")),
    ]
    return EventRows(arrays)


@pytest.mark.parametrize("scheme", ["memory", "file", "sqlite"])
@pytest.mark.parametrize("proof", [False, True])
@pytest.mark.parametrize("partitions", [1, 3])
def test_columns_are_stored_as_the_events_they_stand_for(
    scheme: str, tmp_path: Path, partitions: int, *, proof: bool
) -> None:
    url = "memory:" if scheme == "memory" else f"{scheme}:{tmp_path / 'log'}"
    with sl.open(url) as log:
        log.create_topic("t", partitions=partitions, proof=proof)
        log.append_many("t", rows(EVENTS), partition=0)
        log.append_many("t", rows(EVENTS))
        log.append_many("t", rows(EVENTS[:2]))

        found = [record.event for p in range(partitions) for record in log.read("t", p, 0)]

        assert [each.event for each in log.read("t", 0, 0, 200)] == EVENTS
        wanted = [*EVENTS, *EVENTS, *EVENTS[:2]]
        assert sorted(map(repr, found)) == sorted(map(repr, wanted))
        assert all(report.is_sound for report in log.verify("t"))


def test_columns_that_were_cut_from_others_are_whole(tmp_path: Path) -> None:
    whole = rows(EVENTS)
    part = EventRows([each.slice(50, 100) for each in whole.arrays])
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        log.create_topic("t")
        receipts = log.append_many("t", part)

        assert len(receipts) == 100
        assert [record.event for record in log.read("t", 0, 0)] == EVENTS[50:150]
        assert part[3] == EVENTS[53]


@pytest.mark.parametrize("proof", [False, True])
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_a_message_of_the_columns_is_stored_as_they_are(
    tmp_path: Path, compression: str | None, *, proof: bool
) -> None:
    whole = rows(EVENTS)
    names = ["_key", "kind", "payload", "headers", "occurred_at"]
    batch = pa.RecordBatch.from_arrays(whole.arrays, names)
    ready = EventRows(batch.columns, message=batch.serialize())
    with sl.open(f"file:{tmp_path / 'log'}", compression=compression) as log:
        log.create_topic("t", proof=proof)
        log.append_many("t", whole, idempotency_key="whole")
        log.append_many("t", ready, idempotency_key="ready")
        log.append_many("t", ready, idempotency_key="ready")

        found = [record.event for record in log.read("t", 0, 0)]

        assert found == EVENTS + EVENTS
        assert all(report.is_sound for report in log.verify("t"))


def test_a_message_of_more_than_the_columns_is_not_stored(tmp_path: Path) -> None:
    whole = rows(EVENTS)
    names = ["_key", "kind", "payload", "headers", "occurred_at"]
    message = pa.RecordBatch.from_arrays(whole.arrays, names).serialize()
    part = EventRows([each.slice(50, 100) for each in whole.arrays], message=message)
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        log.create_topic("t")
        log.append_many("t", part)

        assert [record.event for record in log.read("t", 0, 0)] == EVENTS[50:150]


def test_a_kind_that_cannot_be_is_refused() -> None:
    whole = rows(EVENTS[:1])
    with pytest.raises(sl.InvalidError):
        EventRows([whole.arrays[0], pa.array(["\n"]), *whole.arrays[2:]])


def test_columns_hold_nothing_of_what_they_were_cut_from() -> None:
    whole = rows(EVENTS)
    assert all(
        mine is theirs
        for mine, theirs in zip(EventRows(whole.arrays).arrays, whole.arrays, strict=True)
    )
    shifted = pa.StringArray.from_buffers(
        2, pa.array([1, 2, 4], pa.int32()).buffers()[1], pa.py_buffer(b"-abc")
    )
    cut = [each.slice(1, 2) for each in whole.arrays[1:]]

    for each, given in zip(EventRows([shifted, *cut]).arrays, [shifted, *cut], strict=True):
        assert each.equals(given)
        assert each.offset == 0
        if pa.types.is_string(each.type):
            assert each.buffers()[1][:4].to_pybytes() == bytes(4)
