"""A writer that is fenced during a write: that write, and the next one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.io import SystemIo
from strandline.log import Log
from strandline.stores.files.lane import Lane
from strandline.stores.files.partition_writer import PartitionWriter
from strandline.testing.faulty_io import FaultyIo, Operation, OperationKind
from strandline.values import ClosedError, Event, StrandlineError, UnknownError
from tests.logs import file_log
from tests.planting import Bug

WRITES: tuple[OperationKind] = ("pwrite",)


def fenced(path: str, *, exclusive: bool) -> Iterator[Log]:
    """Yield a log whose partition was taken over between its write and its look at the fence."""
    io = FaultyIo(SystemIo())

    def take_over(_: Operation) -> None:
        with file_log(path, take_over=True, lock_timeout_s=0.01) as other:
            other.append("orders", Event("made", 2))

    with file_log(path, io=io, exclusive=exclusive) as log:
        log.create_topic("orders")
        log.append("orders", Event("made", 0))
        # What is written first is the frame, then the tail.
        io.before(2, take_over, kinds=WRITES)
        with pytest.raises(UnknownError):
            log.append("orders", Event("made", 1))
        yield log


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Log]:
    yield from fenced(str(tmp_path / "log"), exclusive=False)


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Log]:
    yield from fenced(str(tmp_path / "log"), exclusive=True)


def numbers_in(log: Log) -> list[object]:
    return [record.payload for record in log.read("orders", 0, 0)]


def test_a_writer_that_shares_continues_in_the_next_epoch(shared: Log) -> None:
    shared.append("orders", Event("made", 3))

    assert numbers_in(shared)[-2:] == [2, 3]
    assert len(shared.epochs("orders", 0)) == 2
    shared.sync("orders", 0)
    shared.append("orders", Event("made", 4))
    assert numbers_in(shared)[-1] == 4


def test_a_writer_that_owns_the_partition_has_lost_it(owner: Log) -> None:
    with pytest.raises(ClosedError):
        owner.append("orders", Event("made", 3))

    assert numbers_in(owner)[-1] == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "bug",
    [
        Bug("no writer continues", Lane, "append", "self._is_exclusive", "True"),
        Bug("it continues with what was fenced", Lane, "_renew", "self._begin()", "pass"),
    ],
    ids=str,
)
def test_a_fenced_lane_that_is_not_renewed_is_noticed(shared: Log, bug: Bug) -> None:
    with bug.planted(), pytest.raises((AssertionError, RecursionError, StrandlineError)):
        test_a_writer_that_shares_continues_in_the_next_epoch(shared)


def test_an_owner_that_continues_is_noticed(owner: Log) -> None:
    bug = Bug("an owner shares", Lane, "append", "self._is_exclusive", "False")
    late = Bug("and looks at nothing", PartitionWriter, "_prepare", "raise self._fenced()", "pass")

    with bug.planted(), late.planted(), pytest.raises(pytest.fail.Exception):
        test_a_writer_that_owns_the_partition_has_lost_it(owner)
