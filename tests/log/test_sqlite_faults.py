"""Each I/O call of a SQLite log's own fails in turn: nothing acknowledged is lost."""

import contextlib
import errno
from pathlib import Path

import pytest

from strandline.io import SystemIo
from strandline.log.sqlite import SqliteLog
from strandline.testing.faulty_io import FaultyIo
from strandline.values import Durability, Event, StrandlineError


def work(path: str, io: FaultyIo, acknowledged: dict[int, int]) -> None:
    """Append, sync, trim and flush; note what was acknowledged, until something fails."""
    with SqliteLog(path, io=io) as log:
        log.create_topic("orders")
        for number in range(6):
            level = Durability.DURABLE if number % 2 else Durability.WRITTEN
            event = Event("order", {"n": number})
            acknowledged[log.append("orders", event, durability=level).offset] = number
        log.ack("orders", "billing", 0, 2)
        log.trim("orders", 0, 1)
        log.flush()


@pytest.mark.parametrize("forever", [False, True])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EMFILE])
def test_a_fault_at_any_call_loses_nothing_acknowledged(
    tmp_path: Path, code: int, forever: bool
) -> None:
    for nth in range(1, 1000):
        path = str(tmp_path / f"{nth}.sqlite")
        io = FaultyIo(SystemIo())
        fault = io.fail(nth, code, forever=forever)
        acknowledged: dict[int, int] = {}

        with contextlib.suppress(StrandlineError):
            work(path, io, acknowledged)

        with SqliteLog(path, auto_create=True) as again:
            again.append("orders", Event("order", {"n": -1}), durability=Durability.DURABLE)
            low = again.marks("orders", 0).low
            stored: dict[int, int] = {
                r.offset: r.payload["n"] for r in again.read("orders", 0, low)
            }
        lost = {o: n for o, n in acknowledged.items() if o >= low and stored.get(o) != n}
        assert not lost, f"nth={nth}"
        if not fault.fired:
            return
    pytest.fail("the work never came to its end")
