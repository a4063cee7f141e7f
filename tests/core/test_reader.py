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


@pytest.mark.parametrize(
    "limits", [{}, {"records_max": 1}, {"records_max": 250}, {"bytes_max": 9_000}]
)
def test_any_range_is_read_as_by_plain_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: Any
) -> None:
    url = filled(tmp_path / "log")

    for start in [0, 1, 2, 4, 7, 100, 163, 164, 200, 900, 1129, 1130, 1131, 2000]:
        ours, plain = both(monkeypatch, url, 0, start, **limits)

        assert ours == plain, start


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
        ours, plain = both(monkeypatch, url, 0, 0)

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
