"""A SQLite log with a bit of its file flipped: the right records, or a typed error."""

import contextlib
import random
import tempfile
from pathlib import Path

from strandline.log import Log
from strandline.values import CorruptError, Event, InvalidError
from tests.logs import sqlite_log

RECORDS = 200
#: Every so many are also read alone.
STEP = 16
TYPED = (CorruptError, InvalidError)
#: Flips of one seed in torture.
BITS_PER_SEED = 200


def event(number: int) -> Event:
    return Event("order", {"n": number, "text": "shore" * (number % 40)}, key=f"c{number}")


EVENTS = [event(number) for number in range(RECORDS)]


def check_reads(path: Path) -> bool:
    """Read everything; False if damage was reported, AssertionError if it was not."""
    is_whole = True
    try:
        with sqlite_log(str(path), mode="read") as log:
            marks = log.marks("orders", 0)
            assert (marks.low, marks.high) == (0, RECORDS)
            start = 0
            while start < RECORDS:
                try:
                    for record in log.read("orders", 0, start):
                        assert record.offset == start
                        assert record.value == EVENTS[start]
                        start += 1
                    assert start == RECORDS
                except TYPED:
                    is_whole = False
                    start += check_alone(log, start)
            for number in range(0, RECORDS, STEP):
                check_alone(log, number)
            assert log.cursor("orders", "billing", 0) in (100, None)
    except TYPED:
        return False
    return is_whole


def check_alone(log: Log, number: int) -> int:
    """Read one record, which may be reported as damaged; return how many that were."""
    with contextlib.suppress(*TYPED):
        [record] = log.read("orders", 0, number, number + 1)
        assert record.value == EVENTS[number]
    return 1


def write(path: Path) -> None:
    """Write the log that is damaged."""
    with sqlite_log(str(path)) as log:
        log.create_topic("orders")
        for number in range(RECORDS):
            log.append("orders", event(number), idempotency_key=f"k{number}")
        log.ack("orders", "billing", 0, 100)


def flip_some(original: Path, folder: Path, seed: int, count: int) -> int:
    """Flip bits, one at a time; return how many were reported."""
    chance = random.Random(seed)
    content = original.read_bytes()
    reported = 0
    for _ in range(count):
        bit = chance.randrange(len(content) * 8)
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path = folder / f"{bit}.sqlite"
        path.write_bytes(damaged)
        try:
            reported += not check_reads(path)
        except BaseException as error:
            error.add_note(f"seed={seed} bit={bit}")
            raise
        for left in folder.iterdir():
            left.unlink()
    return reported


def run(seed: int) -> None:
    """Flip BITS_PER_SEED bits."""
    with tempfile.TemporaryDirectory() as original, tempfile.TemporaryDirectory() as folder:
        path = Path(original, "events.sqlite")
        write(path)
        assert flip_some(path, Path(folder), seed, BITS_PER_SEED)
