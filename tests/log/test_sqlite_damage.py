"""Damage to a SQLite log's file: the right records, or a typed error, never wrong ones."""

import contextlib
import random
import shutil
from pathlib import Path

import pytest

from strandline.clock import SystemClock
from strandline.log import Log
from strandline.values import CorruptError, Event, InvalidError
from tests.logs import sqlite_log

RECORDS = 200
#: Every so many are also read alone.
STEP = 16
TYPED = (CorruptError, InvalidError)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "events.sqlite"
    with sqlite_log(str(path)) as log:
        log.create_topic("orders")
        for number in range(RECORDS):
            log.append("orders", event(number), idempotency_key=f"k{number}")
        log.ack("orders", "billing", 0, 100)
    return path


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


def test_the_undamaged_file_reads_well(original: Path) -> None:
    assert check_reads(original)


@pytest.mark.parametrize("count", [150, pytest.param(3000, marks=pytest.mark.slow)])
def test_a_flipped_bit_gives_the_right_records_or_a_typed_error(
    original: Path, tmp_path: Path, count: int
) -> None:
    seed = int.from_bytes(SystemClock().random_bytes(4), "big")
    chance = random.Random(seed)
    content = original.read_bytes()
    reported = 0
    for _ in range(count):
        bit = chance.randrange(len(content) * 8)
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path = tmp_path / f"{bit}.sqlite"
        path.write_bytes(damaged)

        try:
            reported += not check_reads(path)
        except BaseException as error:
            error.add_note(f"seed={seed} bit={bit}")
            raise

        for left in tmp_path.iterdir():
            left.unlink()

    assert reported


def test_a_zeroed_page_gives_the_right_records_or_a_typed_error(
    original: Path, tmp_path: Path
) -> None:
    content = original.read_bytes()
    for start in range(0, len(content), 4096):
        path = tmp_path / f"{start}.sqlite"
        path.write_bytes(content[:start] + bytes(4096) + content[start + 4096 :])

        check_reads(path)


def test_a_cut_file_gives_the_right_records_or_a_typed_error(
    original: Path, tmp_path: Path
) -> None:
    path = tmp_path / "cut.sqlite"
    shutil.copy(original, path)
    with path.open("r+b") as file:
        file.truncate(original.stat().st_size // 2)

    assert not check_reads(path)


def test_a_torn_write_costs_its_own_record_and_no_other_we3(tmp_path: Path) -> None:
    """WE3: what is cut off in the middle is not there; what follows is not glued to it."""
    written = tmp_path / "written.sqlite"
    sizes = []
    with sqlite_log(str(written)) as log:
        log.create_topic("orders")
        log.flush()
        for number in range(6):
            log.append("orders", event(number))
            sizes.append(wal(written).stat().st_size)
        database, logged = written.read_bytes(), wal(written).read_bytes()

    for size in (*range(sizes[0], len(logged), 1013), len(logged) - 1):
        torn = tmp_path / f"{size}.sqlite"
        torn.write_bytes(database)
        wal(torn).write_bytes(logged[:size])
        whole = sum(end <= size for end in sizes)

        with sqlite_log(str(torn)) as log:
            found = [record.value for record in log.read("orders", 0, 0)]
            receipt = log.append("orders", event(100))
        with sqlite_log(str(torn)) as log:
            later = [record.value for record in log.read("orders", 0, 0)]

        assert found == [event(number) for number in range(whole)], size
        assert receipt.offset == whole
        assert later == [*found, event(100)]


def wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")
