"""What was moved reads as before, by every way of reading."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import strandline as sl
from strandline.testing import FakeClock
from strandline.tiering import tier
from strandline.values import InvalidError, TrimmedError, ValueKind
from tests.logs import memory_log
from tests.tiering.faulty_store import MemoryObjects
from tests.tiering.tiered import BACKENDS, filled, move, opened, rows

_folders = itertools.count()

SMALL = pa.schema([("a", pa.int64()), ("b", pa.string())])
WIDE = pa.schema(
    [
        pa.field("a", pa.int64(), nullable=False),
        ("c", pa.dictionary(pa.int8(), pa.string())),
        ("d", pa.list_(pa.float32())),
        ("e", pa.timestamp("ns")),
    ],
    metadata={"who": "tests"},
)
ODD = pa.schema([("i", pa.month_day_nano_interval())])


def event(number: int) -> sl.Event:
    return sl.Event(
        f"k{number % 3}",
        {"n": number, "text": "ä" * (number % 5)},
        key=None if number % 4 == 0 else f"key-{number % 7}",
        headers={"h": str(number)} if number % 2 else {},
    )


def batch(number: int) -> pa.RecordBatch:
    count = number % 4 + 1
    if number % 6 < 3:
        return pa.record_batch([list(range(count)), ["x"] * count], schema=SMALL)
    if number % 6 == 3:
        return pa.record_batch([pa.array([None] * count, ODD.field("i").type)], schema=ODD)
    columns = [
        pa.array([number] * count, pa.int64()),
        pa.array(["u", None, "v", "u"][:count]).dictionary_encode().cast(WIDE.field("c").type),
        pa.array([[1.5], None, [], [2.0, None]][:count], WIDE.field("d").type),
        pa.array([number * 1000, None, 3000, 4000][:count], WIDE.field("e").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=WIDE)


VALUES: dict[ValueKind, Callable[[int], Any]] = {
    ValueKind.EVENT: event,
    ValueKind.BYTES: lambda number: bytes(number % 9),
    ValueKind.BATCH: batch,
}


def told(read: Callable[[], Any]) -> Any:
    """Return what a read comes to, errors included."""
    try:
        return read()
    except TrimmedError as error:
        return "trimmed", error.oldest
    except InvalidError:
        return "invalid"


def as_records(log: Any, start: int, end: int | None, options: dict[str, Any]) -> Any:
    return told(lambda: list(log.read("t", 0, start, end, **options)))


def as_rows(log: Any, start: int, end: int | None, options: dict[str, Any]) -> Any:
    found = told(lambda: log.read_batches("t", 0, start, end, **options))
    if isinstance(found, (str, tuple)):
        return found
    table = pa.Table.from_batches(list(found), schema=found.schema)
    return str(found.schema), table.to_pylist()


@contextlib.contextmanager
def case_variants(backend: str, folder: Path) -> Iterator[tuple[Any, Any]]:
    clock = FakeClock()
    place = folder / str(next(_folders))
    place.mkdir()
    with opened(backend, place) as log, memory_log(clock=clock) as model:
        yield log, model


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(ValueKind))
@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    piece=st.integers(1, 8),
    kept=st.sampled_from([0, 40, 200, None]),
    trimmed=st.integers(0, 12),
    asked=st.lists(
        st.tuples(
            st.integers(0, 30),
            st.none() | st.integers(0, 34),
            st.sampled_from([{}, {"records_max": 3}, {"bytes_max": 60}, {"bytes_max": 0}]),
        ),
        min_size=3,
        max_size=6,
    ),
)
def test_a_moved_log_reads_like_one_that_never_was(  # noqa: PLR0917 - Drawn, not passed.
    tmp_path: Path,
    backend: str,
    kind: ValueKind,
    counts: list[int],
    piece: int,
    kept: int | None,
    trimmed: int,
    asked: list[tuple[int, int | None, dict[str, Any]]],
) -> None:
    with case_variants(backend, tmp_path) as (log, model):
        for each in (log, model):
            each.create_topic("t", value_kind=kind)
        made = itertools.count()
        for count in counts:
            values = [VALUES[kind](next(made)) for _ in range(count)]
            keys = None if kind is ValueKind.EVENT else [f"k{n}" for n in range(count)]
            for each in (log, model):
                each.append_many("t", values, keys=keys)
            move(log, piece_records=piece, local_bytes=kept)
        high = log.marks("t", 0).high
        before = min(trimmed, high)
        for each in (log, model):
            each.trim("t", 0, before)

        assert log.marks("t", 0).low == model.marks("t", 0).low
        runs = log.segments("t", 0)
        edges = [edge for run in runs for edge in (run.start, run.end)]
        assert edges == [] or edges[0] == before
        assert edges == [] or edges[-1] == high
        assert edges[1:-1:2] == edges[2::2]
        sizes = log.describe_topic("t").size_bytes, model.describe_topic("t").size_bytes
        assert kind is ValueKind.BATCH or sizes[0] == sizes[1]
        stamps = [record.timestamp_us for record in log.read("t", 0, before)]
        for stamp in {0, *stamps, *(stamp + 1 for stamp in stamps)}:
            later = sum(each < stamp for each in stamps)
            assert log.offset_at("t", 0, stamp) == before + later
        for start, end, options in asked:
            if kind is ValueKind.BATCH and "bytes_max" in options:
                continue  # What a batch occupies differs once it is part of a larger one.
            unstamped = [as_records(each, start, end, options) for each in (log, model)]
            assert without_time(unstamped[0]) == without_time(unstamped[1])
            tables = [as_rows(each, start, end, options) for each in (log, model)]
            assert without_time(tables[0]) == without_time(tables[1])


def without_time(found: Any) -> Any:
    """Return what was read without the timestamps, in which two logs differ."""
    if isinstance(found, list):
        return [(r.offset, r.key, r.tenant, r.value) for r in found]
    if isinstance(found, tuple) and isinstance(found[1], list):
        return found[0], [{k: v for k, v in row.items() if k != "_timestamp"} for row in found[1]]
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_subscription_and_a_consumer_go_through_both_halves(backend: str, tmp_path: Path) -> None:
    with opened(backend, tmp_path) as log:
        records = filled(log, 20)
        log.ack("t", "worker", 0, 3)
        move(log)
        log.append("t", sl.Event("k", {"n": 20}))

        with log.subscribe("t") as subscription:
            seen = list(itertools.islice(subscription, 21))
        with log.consumer("t", "worker") as consumer:
            first = next(iter(consumer))

        assert seen[:20] == records
        assert first.record.offset == 3
        assert log.cursor("t", "worker", 0) == 3
        assert log.resolve(log.position("t", 0, 4)) == 4


@pytest.mark.parametrize("backend", ["sqlite", "file"])
def test_a_plain_open_reads_what_another_process_has_moved(backend: str, tmp_path: Path) -> None:
    url = f"{backend}:{tmp_path / 'log'}"
    with sl.open(url) as log:
        records = filled(log)
        tier(log, "t", f"file://{tmp_path / 'cold'}", include_open=True, local_bytes=0)
        assert log.evict("t", 0, 0) == 20

    for mode in ("read", "write"):
        with sl.open(url, mode=mode) as log:
            assert list(log.read("t", 0, 0)) == records
            assert [row["_offset"] for row in rows(log)] == list(range(20))
            assert str(tmp_path / "cold") in str(log.segments("t", 0)[0].location)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_reader_in_the_middle_of_a_range_continues_from_the_copy(
    backend: str, tmp_path: Path
) -> None:
    with opened(backend, tmp_path) as log:
        records = filled(log, 3000)
        plain = log.read("t", 0, 0)
        limited = log.read("t", 0, 0, bytes_max=10**9)
        batches = iter(log.read_batches("t", 0, 0))
        begun = [next(plain)], [next(limited)], [next(batches)]

        move(log, piece_records=700)

        assert [*begun[0], *plain] == records
        assert [*begun[1], *limited] == records
        offsets = [n for b in [*begun[2], *batches] for n in b.column("_offset").to_pylist()]
        assert offsets == list(range(3000))


@pytest.mark.slow
def test_a_reader_that_a_trim_overtakes_in_the_cold_half_is_reported(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path) as log:
        filled(log, 20)
        move(log)
        reading = log.read("t", 0, 0)
        next(reading)

        log.trim("t", 0, 15)

        with pytest.raises(TrimmedError) as caught:
            list(reading)
        assert caught.value.oldest == 15
        assert isinstance(log.objects, MemoryObjects)
        assert len(log.objects.objects) == 1


@pytest.mark.slow
def test_retention_counts_both_halves(tmp_path: Path) -> None:
    with opened("file", tmp_path) as log, memory_log() as model:
        for each in (log, model):
            each.create_topic("t", retention_bytes=400)
        values = [sl.Event("k", {"n": n}, key="x") for n in range(60)]
        log.append_many("t", values)
        model.append_many("t", values)
        move(log, piece_records=7)
        log.append_many("t", values[:5])
        model.append_many("t", values[:5])

        log.apply_retention("t")
        model.apply_retention("t")

        assert log.marks("t", 0).low == model.marks("t", 0).low


def test_a_dropped_topic_takes_its_copies_with_it(tmp_path: Path) -> None:
    objects = MemoryObjects()
    with opened("sqlite", tmp_path, objects) as log:
        filled(log)
        move(log)
        assert objects.objects

        log.drop_topic("t")

        assert objects.objects == {}


def test_evicting_what_has_no_copy_is_refused(tmp_path: Path) -> None:
    with opened("file", tmp_path) as log:
        records = filled(log)
        log.sync("t", 0)

        with pytest.raises(InvalidError):
            log.evict("t", 0, 20)
        tier(log, "t", log.objects, include_open=True)
        with pytest.raises(InvalidError):
            log.evict("t", 0, 20)

        assert list(log.read("t", 0, 0)) == records
