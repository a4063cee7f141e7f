"""What a caller sees when the file system fails, and the state of the log afterwards."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline.io import SystemIo
from strandline.log import Log
from strandline.testing.faulty_io import FaultyIo, OperationKind
from strandline.values import (
    ClosedError,
    Durability,
    Event,
    FailedError,
    UnavailableError,
    UnknownError,
)
from tests.logs import file_log

TOPIC = "orders"
SYNCS: tuple[OperationKind] = ("sync",)
DIRECTORY_SYNCS: tuple[OperationKind] = ("sync_directory",)
LISTS: tuple[OperationKind] = ("list",)
PWRITES: tuple[OperationKind] = ("pwrite",)


@pytest.fixture
def io() -> FaultyIo:
    return FaultyIo(SystemIo())


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "log")


@pytest.fixture
def log(path: str, io: FaultyIo) -> Iterator[Log]:
    with file_log(path, io=io) as log:
        log.create_topic(TOPIC)
        log.append(TOPIC, Event("order", {"n": 0}))
        log.ack(TOPIC, "billing", 0, 1)
        for number in (1, 2):
            log.append(TOPIC, Event("order", {"n": number}), durability=Durability.WRITTEN)
        yield log


def numbers(log: Log) -> list[int]:
    return [record.payload["n"] for record in log.read(TOPIC, 0, log.marks(TOPIC, 0).low)]


CALLS: dict[str, Callable[[Log], object]] = {
    "topics": lambda log: log.topics(),
    "describe": lambda log: log.describe(),
    "create_topic": lambda log: log.create_topic("another"),
    "drop_topic": lambda log: log.drop_topic(TOPIC),
    "append": lambda log: log.append(TOPIC, Event("order")),
    "append_many": lambda log: log.append_many(TOPIC, [Event("order")]),
    "read": lambda log: list(log.read(TOPIC, 0, 0)),
    "read_batches": lambda log: list(log.read_batches(TOPIC, 0, 0)),
    "marks": lambda log: log.marks(TOPIC, 0),
    "segments": lambda log: log.segments(TOPIC, 0),
    "trim": lambda log: log.trim(TOPIC, 0, 1),
    "seal": lambda log: log.seal(TOPIC),
    "watch": lambda log: log.watch().add(TOPIC, 0, 0),
    "ack": lambda log: log.ack(TOPIC, "billing", 0, 2),
    "cursor": lambda log: log.cursor(TOPIC, "billing", 0),
    "consumers": lambda log: log.consumers(TOPIC),
    "forget": lambda log: log.delete_consumer(TOPIC, "billing"),
}


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_failing_disk_is_unavailable_and_the_error_says_where_and_why(
    log: Log, path: str, io: FaultyIo, call: Callable[[Log], object]
) -> None:
    io.fail(1, errno.EIO, forever=True)

    with pytest.raises(UnavailableError) as slots:
        call(log)
    io.clear_faults()

    assert str(slots.value.fields["path"]).startswith(path)
    assert slots.value.fields["reason"] == "Input/output error"
    call(log)


def test_a_reader_that_looks_while_the_first_record_is_written_finds_no_damage(
    path: str, io: FaultyIo
) -> None:
    with file_log(path) as log, file_log(path, mode="read", io=io) as reader:
        log.create_topic(TOPIC)
        reader.topics()
        # Between its two looks: for a manifest, and for frames without one.
        io.before(2, lambda _: _append(log), kinds=LISTS)

        assert reader.marks(TOPIC, 0).high == 1


def _append(log: Log) -> None:
    log.append(TOPIC, Event("order"))


def test_opening_on_a_failing_disk_is_unavailable(path: str, io: FaultyIo) -> None:
    file_log(path).close()
    io.fail(3, errno.EACCES, forever=True)

    with pytest.raises(UnavailableError) as slots:
        file_log(path, io=io)

    assert isinstance(slots.value.__cause__, PermissionError)
    assert str(slots.value.fields["path"]).startswith(path)


def test_a_read_that_has_begun_is_reported_and_can_begin_again(log: Log, io: FaultyIo) -> None:
    records = log.read(TOPIC, 0, 0)
    # The first one finds the frame: the read has begun.
    io.fail(2, errno.EIO, kinds=["pread"], forever=True)

    with pytest.raises(UnavailableError):
        list(records)
    io.clear_faults()

    assert numbers(log) == [0, 1, 2]


@pytest.mark.slow
def test_a_write_that_failed_is_no_repeat_after_a_seal(log: Log, path: str, io: FaultyIo) -> None:
    log.append(TOPIC, Event("order", {"n": 3}), idempotency_key="first")
    io.fail(1, errno.EIO, kinds=PWRITES)
    with pytest.raises(UnknownError):
        log.append(TOPIC, Event("order", {"n": 4}), idempotency_key="lost")

    log.seal(TOPIC)

    with file_log(path) as again:
        receipt = again.append(TOPIC, Event("order", {"n": 4}), idempotency_key="lost")
        assert not receipt.is_repeat
        assert numbers(again) == [0, 1, 2, 3, 4]


def test_what_did_not_sync_when_the_log_changed_hands_is_copied(
    log: Log, path: str, io: FaultyIo
) -> None:
    lost = log.segments(TOPIC, 0)[-1].location
    for lock in Path(path).rglob("0/lock"):
        # Renamed, so that no new file gets its number.
        lock.rename(lock.with_name("old"))
    io.fail(1, errno.EIO, kinds=SYNCS)
    with pytest.raises(UnavailableError):
        log.append(TOPIC, Event("order", {"n": 3}))

    log.append(TOPIC, Event("order", {"n": 3}), durability=Durability.DURABLE)

    assert numbers(log) == [0, 1, 2, 3]
    ends = {segment.location: segment.end for segment in log.segments(TOPIC, 0)}
    assert ends[lost] == 1


def test_a_reader_whose_sync_failed_gets_no_position_from_a_second_one(
    log: Log, path: str, io: FaultyIo
) -> None:
    with file_log(path, mode="read", io=io) as reader:
        io.fail(1, errno.EIO, kinds=SYNCS)
        with pytest.raises(FailedError):
            reader.position(TOPIC, 0, 3)

        with pytest.raises(ClosedError):
            reader.position(TOPIC, 0, 3)


def test_a_trim_whose_sync_failed_ends_the_writing(log: Log, io: FaultyIo) -> None:
    io.fail(1, errno.EIO, kinds=SYNCS)
    with pytest.raises(FailedError):
        log.trim(TOPIC, 0, 3, force=True)

    with pytest.raises((FailedError, ClosedError)):
        log.append(TOPIC, Event("order"), durability=Durability.DURABLE)


def test_a_trim_that_failed_after_it_was_stored_is_not_undone(log: Log, io: FaultyIo) -> None:
    log.sync(TOPIC, 0)
    io.fail(1, errno.EIO, kinds=DIRECTORY_SYNCS)
    with pytest.raises(UnavailableError):
        log.trim(TOPIC, 0, 2, force=True)
    with file_log(log.describe().location.removeprefix("file:"), mode="read") as reader:
        low = reader.marks(TOPIC, 0).low

    log.append(TOPIC, Event("order", {"n": 3}))
    log.seal(TOPIC)

    assert log.marks(TOPIC, 0).low >= low
