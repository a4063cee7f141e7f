"""Records that the core reads: those that plain Python reads, also where files are damaged."""

import errno
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.io import SystemIo
from strandline.stores.files import reading
from strandline.stores.files.runs import SegmentRuns
from strandline.testing import FaultyIo
from strandline.values import CorruptError, Record, StrandlineError
from tests.core.plain import MOMENT, needs_core
from tests.logs import file_log

pytestmark = needs_core


def mixed(seed: int) -> Iterator[list[sl.Event]]:
    """Yield appends of any size, with all that an event may have."""
    chosen = random.Random(seed)
    for number, count in enumerate([1, 1, 3, 15, 16, 63, 64, 65, 1, 700, 1, 200]):
        yield [
            sl.Event(
                chosen.choice(["a", "order.created", "é" if number % 4 == 0 else "b"]),
                chosen.choice([None, {"n": index}, [1.5, "é"], "x" * chosen.randrange(300)]),
                key=chosen.choice([None, "", "k", "ké"]),
                headers=chosen.choice([{}, {"b": "1", "a": "é"}]),
                occurred_at=chosen.choice([None, MOMENT]),
            )
            for index in range(count)
        ]


def filled(path: Path, seed: int = 1) -> str:
    url = f"file:{path}"
    with sl.open(url) as log:
        log.create_topic("t")
        for events in mixed(seed):
            log.append_many("t", events)
        log.append("t", sl.Event("named"), producer="p", sequence=1)
        for events in mixed(seed + 1):
            log.append_many("t", events)
    return url


def seen(records: Iterator[Record]) -> list[Any]:
    """Return what a read comes to: each record, and the error that ended it."""
    found: list[Any] = []
    try:
        found.extend((*_own(record), record.event.parts()) for record in records)
    except StrandlineError as error:
        found.append((type(error), str(error)))
    return found


def _own(record: Record) -> tuple[object, ...]:
    return (
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_us,
        record.key,
        record.tenant,
    )


def both(monkeypatch: pytest.MonkeyPatch, url: str, *read: int, **limits: Any) -> tuple[Any, Any]:
    """Return what the core and plain Python make of a read."""
    with sl.open(url, mode="read") as log:
        ours = seen(log.read("t", *read, **limits))
    with monkeypatch.context() as without, sl.open(url, mode="read") as log:
        without.setattr(reading, "IS_COMPILED", False)
        return ours, seen(log.read("t", *read, **limits))


LIMITS: list[dict[str, int]] = [
    {},
    {"records_max": 1},
    {"records_max": 250},
    {"bytes_max": 0},
    {"bytes_max": 1},
    {"bytes_max": 500},
    {"bytes_max": 9_000},
    {"bytes_max": (1 << 63) - 1},
    {"bytes_max": 20_000, "records_max": 40},
]


@pytest.mark.parametrize("limits", LIMITS)
def test_any_range_is_read_as_by_plain_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: Any
) -> None:
    url = filled(tmp_path / "log")

    for start in [0, 1, 2, 4, 7, 100, 163, 164, 200, 900, 1129, 1130, 1131, 2000]:
        ours, plain = both(monkeypatch, url, 0, start, **limits)

        assert ours == plain, start


def paged(log: sl.Log, chosen: random.Random) -> Iterator[tuple[Record, ...]]:
    """Yield a partition in pages of any size, each from where the one before ended."""
    start = 0
    while True:
        limits: Any = {"bytes_max": chosen.choice([1, 300, 5_000, 60_000, 1 << 23])}
        if chosen.randrange(2):
            limits["records_max"] = chosen.choice([1, 2, 50, 400])
        page = tuple(log.read("t", 0, start, **limits))
        if not page:
            return
        yield page
        start += len(page)


@pytest.mark.parametrize("seed", range(4))
def test_pages_have_the_same_records_as_those_of_plain_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    url = filled(tmp_path / "log", seed)

    with sl.open(url, mode="read") as log:
        ours = [seen(iter(page)) for page in paged(log, random.Random(seed))]
    with monkeypatch.context() as without, sl.open(url, mode="read") as log:
        without.setattr(reading, "IS_COMPILED", False)
        plain = [seen(iter(page)) for page in paged(log, random.Random(seed))]

    assert ours == plain
    assert sum(map(len, ours)) == 2 * 1130 + 1


def test_pages_of_single_events_are_read_by_the_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sl.open(f"file:{tmp_path}/log") as log:
        log.create_topic("t")
        for number in range(50):
            log.append("t", sl.Event("k", number))
        in_python: list[int] = []
        left = SegmentRuns._left  # noqa: SLF001 - Only this shows which code has read.

        def noted(runs: SegmentRuns, frame: Any, start: int, stop: int) -> Any:
            in_python.append(frame.base)
            return left(runs, frame, start, stop)

        monkeypatch.setattr(SegmentRuns, "_left", noted)
        with log.subscribe("t") as subscription:
            found = [next(subscription).offset for _ in range(50)]

    assert found == list(range(50))
    assert not in_python


def test_flipped_bits_end_a_read_where_they_end_that_of_plain_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = filled(tmp_path / "log")
    (segment,) = (tmp_path / "log").rglob("segments/*")
    sound = segment.read_bytes()
    used = len(sound.rstrip(b"\0"))

    for seed in range(20):
        chosen, content = random.Random(seed), bytearray(sound)
        for _ in range(chosen.randrange(1, 4)):
            content[chosen.randrange(100, used)] ^= 1 << chosen.randrange(8)
        segment.write_bytes(content)
        limits: Any = chosen.choice([{}, {"bytes_max": 1 << 23}])
        ours, plain = both(monkeypatch, url, 0, 0, **limits)

        assert ours == plain, seed
        assert ours[-1][0] is CorruptError


def test_a_read_goes_through_the_io_that_the_log_was_given(tmp_path: Path) -> None:
    filled(tmp_path / "log")
    io = FaultyIo(SystemIo())
    with file_log(str(tmp_path / "log"), io=io, mode="read") as log:
        records = log.read("t", 0, 0)
        io.fail(3, errno.EIO, kinds=["pread"], forever=True)

        with pytest.raises(sl.UnavailableError, match="Input/output error"):
            list(records)


def test_a_log_that_is_closed_ends_a_read(tmp_path: Path) -> None:
    log = sl.open(filled(tmp_path / "log"))
    records = log.read("t", 0, 0)
    next(records)
    log.close()

    with pytest.raises(sl.ClosedError):
        list(records)
