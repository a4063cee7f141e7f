"""The chain of a topic with a proof continues where a log was left in the middle."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.io import SystemIo
from strandline.log import Log
from strandline.testing import FaultyIo
from strandline.testing.conformance_checks import event, fill
from strandline.testing.faulty_io import OperationKind
from strandline.values import Durability, FailedError, ProofReport
from tests.logs import file_log

SYNC: tuple[OperationKind] = ("sync",)


@pytest.fixture
def io() -> FaultyIo:
    return FaultyIo(SystemIo())


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "log")


@pytest.fixture
def log(path: str, io: FaultyIo) -> Iterator[Log]:
    """Return a log with some durable records, and some that are written."""
    with file_log(path, io=io) as log:
        log.create_topic("orders", proof=True)
        fill(log, "orders", 3)
        log.append("orders", event(0), durability=Durability.DURABLE)
        log.append_many("orders", [event(number) for number in range(70)])
        log.append("orders", event(1), tenant="acme")
        yield log


def gone_on(path: str, io: FaultyIo) -> ProofReport:
    """Append to the log again, and verify it against the head that there was before."""
    with file_log(path, io=io) as log:
        log.append("orders", event(2))
        head = log.proof_head("orders", 0)
        log.append_many("orders", [event(number) for number in range(5)])
        (report,) = log.verify("orders", expected=[head])
    assert report.is_sound, report.findings
    return report


def test_records_copied_after_a_failed_sync_keep_their_place(
    path: str, io: FaultyIo, log: Log
) -> None:
    io.fail(1, errno.EIO, kinds=SYNC)
    with pytest.raises(FailedError):
        log.sync("orders", 0)
    io.clear_faults()

    assert gone_on(path, io).records == 75 + 6


def test_after_another_boot_the_last_frame_counts(path: str, io: FaultyIo, log: Log) -> None:
    log.close()
    io.reboot()

    assert gone_on(path, io).records == 75 + 6


def test_after_a_torn_write_the_last_whole_frame_counts(path: str, io: FaultyIo, log: Log) -> None:
    io.write_short(1, errno.EIO, keep_bytes=40)
    with pytest.raises(FailedError):
        log.append("orders", event(9))
    io.clear_faults()
    io.reboot()

    assert gone_on(path, io).records == 75 + 6


def test_a_lock_that_was_replaced_begins_an_epoch_and_not_a_chain(
    path: str, io: FaultyIo, log: Log
) -> None:
    topic = log.topic("orders")
    log.close()
    lock = Path(path) / "topics" / str(topic.id) / "0" / "lock"
    # Made while the old one is there, so that it is another file for certain.
    lock.with_name("new").touch()
    lock.with_name("new").replace(lock)

    assert gone_on(path, io).records == 75 + 6
    with file_log(path, io=io, mode="read") as again:
        assert len(again.epochs("orders", 0)) == 2


def test_everything_trimmed_and_sealed_leaves_the_anchor(path: str, io: FaultyIo, log: Log) -> None:
    head = log.proof_head("orders", 0)
    log.seal("orders")
    log.trim("orders", 0, head.offset)
    log.close()

    with file_log(path, io=io, mode="read") as read:
        assert read.proof_head("orders", 0) == head
        assert read.verify("orders", expected=[head])[0].head == head
    assert gone_on(path, io).records == 6
