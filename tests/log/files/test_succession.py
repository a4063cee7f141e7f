"""What readers see while somebody begins an epoch, and dies before it is there."""

import contextlib
import errno
from pathlib import Path

import pytest

from strandline.io import SystemIo
from strandline.log.files import FileLog
from strandline.testing.faulty_io import FaultyIo, OperationKind
from strandline.values import Durability, Event, FailedError, StrandlineError

NUMBERS = range(3)
SYNCS: tuple[OperationKind] = ("sync",)
REPLACES: tuple[OperationKind] = ("replace",)


def after_a_failed_sync(path: str) -> None:
    """Leave a log whose last record was written to a file that did not sync."""
    io = FaultyIo(SystemIo())
    with FileLog(path) as log:
        log.create_topic("orders")
    with contextlib.suppress(FailedError), FileLog(path, io=io) as log:
        for number in NUMBERS[:-1]:
            log.append("orders", Event("made", number), durability=Durability.DURABLE)
        io.fail(1, errno.EIO, kinds=SYNCS)
        with pytest.raises(FailedError):
            log.append("orders", Event("made", NUMBERS[-1]), durability=Durability.DURABLE)


def numbers_in(path: str) -> list[object]:
    with FileLog(path, mode="read") as log:
        return [record.payload for record in log.read("orders", 0, 0)]


def test_what_is_copied_into_a_new_epoch_stays_readable_until_it_is_there(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    after_a_failed_sync(path)
    assert numbers_in(path) == [*NUMBERS]

    io = FaultyIo(SystemIo())
    with FileLog(path, io=io) as log:
        # The manifest of the new epoch.
        io.fail(1, errno.EIO, kinds=REPLACES)
        with pytest.raises(StrandlineError):
            log.append("orders", Event("made", 3))

    assert numbers_in(path) == [*NUMBERS]
    with FileLog(path) as log:
        log.append("orders", Event("made", 3))
    assert numbers_in(path) == [*NUMBERS, 3]
