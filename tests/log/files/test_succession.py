"""What readers see while a process begins an epoch, and crashes before it is there."""

import contextlib
import errno
import shutil
import threading
from pathlib import Path

import pytest

from strandline.io import SystemIo
from strandline.log import Log
from strandline.stores.files.tail import FENCE_AT
from strandline.testing.faulty_io import FaultyIo, Operation, OperationKind
from strandline.values import Durability, Event, FailedError, StrandlineError
from tests.logs import file_log

NUMBERS = range(3)
SYNCS: tuple[OperationKind] = ("sync",)
REPLACES: tuple[OperationKind] = ("replace",)
OPENS: tuple[OperationKind] = ("open",)
CHANGES = {"open", "pwrite", "truncate", "preallocate", "replace", "unlink", "sync"}
PATIENCE_S = 20.0


def after_a_failed_sync(path: str) -> None:
    """Leave a log whose last record was written to a file that did not sync."""
    io = FaultyIo(SystemIo())
    with file_log(path) as log:
        log.create_topic("orders")
    with contextlib.suppress(FailedError), file_log(path, io=io) as log:
        for number in NUMBERS[:-1]:
            log.append("orders", Event("made", number), durability=Durability.DURABLE)
        io.fail(1, errno.EIO, kinds=SYNCS)
        with pytest.raises(FailedError):
            log.append("orders", Event("made", NUMBERS[-1]), durability=Durability.DURABLE)


def numbers_in(path: str, mode: str = "read") -> list[object]:
    with file_log(path, mode=mode) as log:
        return [record.payload for record in log.read("orders", 0, 0)]


def test_what_is_copied_into_a_new_epoch_stays_readable_until_it_is_there(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    after_a_failed_sync(path)
    assert numbers_in(path) == [*NUMBERS]

    io = FaultyIo(SystemIo())
    with file_log(path, io=io) as log:
        # The manifest of the new epoch.
        io.fail(1, errno.EIO, kinds=REPLACES)
        with pytest.raises(StrandlineError):
            log.append("orders", Event("made", 3))

    assert numbers_in(path) == [*NUMBERS]
    with file_log(path) as log:
        log.append("orders", Event("made", 3))
    assert numbers_in(path) == [*NUMBERS, 3]


def after_a_loss_of_power(path: str) -> None:
    """Leave a log whose records are durable, and whose tail did not survive."""
    with file_log(path) as log:
        log.create_topic("orders")
        for number in NUMBERS:
            log.append("orders", Event("made", number))
        log.sync("orders", 0)
    for tail in Path(path).rglob("*.tail"):
        tail.write_bytes(bytes(tail.stat().st_size))


def append_until(path: str, io: FaultyIo) -> None:
    """Append where the machine was started again, as far as `io` lets it."""
    io.reboot()
    with contextlib.suppress(StrandlineError), file_log(path, io=io) as log:
        log.append("orders", Event("made", 3))


@pytest.mark.parametrize("mode", ["read", "write"])
def test_nothing_is_hidden_while_a_writer_begins_after_a_loss_of_power(
    tmp_path: Path, mode: str
) -> None:
    """It comes to its end after any change that it makes to the files."""
    left = tmp_path / "left"
    after_a_loss_of_power(str(left / "log"))
    healthy, counts, is_fenced = tmp_path / "healthy", set(), set()
    shutil.copytree(left, healthy)
    io = FaultyIo(SystemIo())
    append_until(str(healthy / "log"), io)
    changes = [n for n, each in enumerate(io.operations, 1) if each.kind in CHANGES]

    for nth in changes:
        trial = tmp_path / str(nth)
        shutil.copytree(left, trial)
        io = FaultyIo(SystemIo())
        io.fail(nth + 1, errno.EIO, forever=True)
        append_until(str(trial / "log"), io)

        found = numbers_in(str(trial / "log"), mode)
        assert found in ([*NUMBERS], [*NUMBERS, 3]), io.operations[nth - 1]
        counts.add(len(found))
        is_fenced.add(any(map(_is_fence, io.operations)))

    assert counts == {len(NUMBERS), len(NUMBERS) + 1}
    assert is_fenced == {False, True}


def _is_fence(operation: Operation) -> bool:
    return operation.kind == "pwrite" and operation.offset == FENCE_AT


def test_a_segment_that_a_fenced_writer_begins_meanwhile_costs_nothing(tmp_path: Path) -> None:
    """It has looked at its lock for the last time, and publishes its manifest after the fence."""
    path = str(tmp_path / "log")
    late, early = FaultyIo(SystemIo()), FaultyIo(SystemIo())
    is_at_the_manifest, may_publish = threading.Event(), threading.Event()
    tails = 0

    def stop(_: Operation) -> None:
        is_at_the_manifest.set()
        assert may_publish.wait(PATIENCE_S)

    def let_it_publish(operation: Operation) -> None:
        nonlocal tails
        tails += operation.path.endswith("0000000000.tail")
        # First it is fenced, then it is read.
        if tails == 2 and not may_publish.is_set():
            may_publish.set()
            rolling.join(PATIENCE_S)

    with file_log(path, io=late, segment_bytes=1) as fenced:
        fenced.create_topic("orders")
        fenced.append("orders", Event("made", 0), durability=Durability.DURABLE)
        late.before(1, stop, kinds=REPLACES)
        rolling = threading.Thread(target=_append_in_vain, args=(fenced,))
        rolling.start()
        assert is_at_the_manifest.wait(PATIENCE_S)
        early.before(1, let_it_publish, kinds=OPENS, forever=True)
        with file_log(path, io=early, take_over=True, lock_timeout_s=0.01) as taker:
            taker.append("orders", Event("made", 1))

    assert tails >= 2
    assert numbers_in(path) == [0, 1]


def _append_in_vain(log: Log) -> None:
    with contextlib.suppress(StrandlineError):
        log.append("orders", Event("made in vain"))
