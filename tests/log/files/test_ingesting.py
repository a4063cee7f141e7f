"""A file that was filled beside the log becomes a segment of it. See design 0135."""

import errno
import os
import random
from collections.abc import Sequence
from pathlib import Path

import google_crc32c
import pytest

from strandline.io import SystemIo
from strandline.log import Log
from strandline.log.staged import StagedRows, discard, ingest, staged_layout
from strandline.stores.files.joined_crc import joined_crc
from strandline.testing.faulty_io import FaultyIo, OperationKind
from strandline.values import Event, StrandlineError, ValueKind
from tests.log.staged_files import stage
from tests.logs import file_log, tiered_log

TOPIC = "orders"
LINKS: tuple[OperationKind] = ("link",)
CHANGES: tuple[OperationKind, ...] = (
    *("pwrite", "preallocate", "truncate", "sync", "sync_directory", "replace", "link"),
    *("unlink", "open", "close"),
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "log")


@pytest.fixture
def staged(tmp_path: Path) -> str:
    return str(tmp_path / "staged")


def events(numbers: Sequence[int]) -> list[Event]:
    return [Event("order", {"n": number}, key=f"key-{number}") for number in numbers]


def fill(log: Log, path: str) -> list[StagedRows]:
    """Stage the events 10 to 14, in two groups."""
    return stage(log, SystemIo(), path, TOPIC, [events([10, 11, 12]), events([13, 14])], key="key")


def numbers(log: Log) -> list[int]:
    return [record.payload["n"] for record in log.read(TOPIC, 0, 0)]


def is_segment(log: Log, path: str) -> bool:
    found = (os.stat(each.location) for each in log.segments(TOPIC, 0) if each.location)
    return os.stat(path).st_ino in {each.st_ino for each in found}


@pytest.mark.parametrize("before", [0, 3])
def test_the_rows_of_a_file_are_appended_by_having_the_file(
    path: str, staged: str, before: int
) -> None:
    with file_log(path) as log:
        log.create_topic(TOPIC)
        log.append_many(TOPIC, events(range(before)))
        rows = fill(log, staged)

        start = ingest(log, log.topic(TOPIC), 0, staged, rows)
        log.append_many(TOPIC, events([99]))

        assert start == before
        assert numbers(log) == [*range(before), 10, 11, 12, 13, 14, 99]
        assert is_segment(log, staged)
        assert log.verify(TOPIC)[0].findings == ()
        assert log.metrics().records == before + 6


def test_what_was_taken_in_is_durable_and_stays(path: str, staged: str) -> None:
    with file_log(path) as log:
        log.create_topic(TOPIC)
        ingest(log, log.topic(TOPIC), 0, staged, fill(log, staged))
        assert log.marks(TOPIC, 0).durable == 5
    os.unlink(staged)

    with file_log(path) as log:
        assert numbers(log) == [10, 11, 12, 13, 14]
        log.seal(TOPIC)
        log.trim(TOPIC, 0, 2, force=True)
        assert [record.payload["n"] for record in log.read(TOPIC, 0, 2)] == [12, 13, 14]


def test_other_writers_and_readers_continue(path: str, staged: str) -> None:
    with file_log(path) as log, file_log(path) as other, file_log(path, mode="read") as reader:
        log.create_topic(TOPIC)
        other.append_many(TOPIC, events([0]))
        log.append_many(TOPIC, events([1]))
        assert numbers(reader) == [0, 1]
        rows = fill(log, staged)

        ingest(log, log.topic(TOPIC), 0, staged, rows)

        assert numbers(reader) == [0, 1, 10, 11, 12, 13, 14]
        other.append_many(TOPIC, events([2]))
        log.append_many(TOPIC, events([3]))
        assert numbers(reader) == numbers(log) == [0, 1, 10, 11, 12, 13, 14, 2, 3]
        other.sync(TOPIC, 0)
        assert reader.marks(TOPIC, 0).durable == 9


def test_a_watch_reports_what_was_taken_in(path: str, staged: str) -> None:
    with file_log(path) as log, file_log(path, mode="read") as reader:
        log.create_topic(TOPIC)
        log.append_many(TOPIC, events([0]))
        watches = log.watch(), reader.watch()
        for watch in watches:
            watch.add(TOPIC, 0, 1)

        ingest(log, log.topic(TOPIC), 0, staged, fill(log, staged))

        for watch in watches:
            assert [hint.partition for hint in watch.wait(30)] == [0]
            watch.close()


def test_each_group_has_an_identity(path: str, staged: str) -> None:
    with file_log(path) as log:
        log.create_topic(TOPIC)
        rows = fill(log, staged)
        ingest(log, log.topic(TOPIC), 0, staged, rows)

        assert ingest(log, log.topic(TOPIC), 0, staged, rows) is None
        again = log.append_many(TOPIC, events([13, 14]), idempotency_key="key-1")

        assert [receipt.offset for receipt in again] == [3, 4]
    with file_log(path) as log:
        again = log.append_many(TOPIC, events([10, 11, 12]), idempotency_key="key-0")

        assert [receipt.offset for receipt in again] == [0, 1, 2]
        assert numbers(log) == [10, 11, 12, 13, 14]


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM])
def test_where_files_have_one_name_nothing_is_taken_in(path: str, staged: str, code: int) -> None:
    io = FaultyIo(SystemIo())
    with file_log(path, io=io) as log:
        log.create_topic(TOPIC)
        rows = fill(log, staged)
        io.fail(1, code, kinds=LINKS)

        assert ingest(log, log.topic(TOPIC), 0, staged, rows) is None
        log.append_many(TOPIC, events([1]))

        assert numbers(log) == [1]


def test_a_name_that_a_crash_has_left_is_removed_and_that_of_a_segment_stays(
    path: str, staged: str
) -> None:
    with file_log(path) as log:
        log.create_topic(TOPIC)
        log.append_many(TOPIC, events([0]))
        (last,) = log.segments(TOPIC, 0)
        rows = fill(log, staged)
        assert last.location is not None
        # As a kill does between the link and the manifest.
        os.link(staged, Path(last.location).with_name("0000000000-0000000009.segment"))

        discard(log, log.topic(TOPIC), 0, staged)
        assert os.stat(staged).st_nlink == 1
        ingest(log, log.topic(TOPIC), 0, staged, rows)
        discard(log, log.topic(TOPIC), 0, staged)

        assert os.stat(staged).st_nlink == 2
        assert numbers(log) == [0, 10, 11, 12, 13, 14]


def test_a_file_that_is_not_as_described_is_not_taken_in(path: str, staged: str) -> None:
    with file_log(path) as log:
        log.create_topic(TOPIC)
        rows = fill(log, staged)

        for wrong in (rows[:1], rows[1:], rows[::-1]):
            assert ingest(log, log.topic(TOPIC), 0, staged, wrong) is None

        assert numbers(log) == []


def test_a_log_with_a_tier_takes_in_files_as_well(path: str, staged: str) -> None:
    with tiered_log("file", path) as log:
        log.create_topic(TOPIC)

        ingest(log, log.topic(TOPIC), 0, staged, fill(log, staged))

        assert numbers(log) == [10, 11, 12, 13, 14]


def test_topics_whose_frames_need_the_rows_ingest_no_file(path: str) -> None:
    with file_log(path) as log:
        proved = log.create_topic("proved", proof=True)
        raw = log.create_topic("raw", value_kind=ValueKind.BYTES)
        assert staged_layout(log, proved, "key") is None
        assert staged_layout(log, raw, "key") is None
        plain = log.create_topic("plain")
        assert staged_layout(log, plain, "key") is not None
    with file_log(path, compression="zstd") as log:
        assert staged_layout(log, plain, "key") is None


@pytest.mark.slow
@pytest.mark.parametrize("before", [0, 1])
def test_where_any_call_fails_all_is_there_or_nothing(tmp_path: Path, before: int) -> None:
    for nth in range(1, 200):
        folder = tmp_path / str(nth)
        folder.mkdir()
        path, staged, io = str(folder / "log"), str(folder / "staged"), FaultyIo(SystemIo())
        with file_log(path, io=io) as log:
            log.create_topic(TOPIC)
            log.append_many(TOPIC, events(range(before)))
            rows = fill(log, staged)
            fault = io.fail(nth, errno.EIO, kinds=CHANGES)
            try:
                ingest(log, log.topic(TOPIC), 0, staged, rows)
            except (OSError, StrandlineError):
                assert fault.fired
            io.clear_faults()
        with file_log(path) as log:
            taken = numbers(log)[before:]
            assert taken in ([], [10, 11, 12, 13, 14])
            # Or it would keep its space when its first name goes.
            assert os.stat(staged).st_nlink == (2 if taken else 1)
            log.append_many(TOPIC, events([99]))
            assert numbers(log)[-1] == 99
        if not fault.fired:
            assert nth > 10
            return
    raise AssertionError("it never came to its end")


def test_the_checksum_of_two_pieces_is_that_of_both() -> None:
    chance = random.Random(5)
    for length in (0, 1, 7, 64, 4096, 1_000_003):
        first, second = chance.randbytes(chance.randrange(99)), chance.randbytes(length)

        found = joined_crc(google_crc32c.value(first), google_crc32c.value(second), length)

        assert found == google_crc32c.value(first + second)
