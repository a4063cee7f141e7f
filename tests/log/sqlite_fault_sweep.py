"""Fails each I/O call of a SQLite log's own in turn: `sqlite_fault_sweep.py folder errno forever`.

A process of its own, because a log that cannot take its lock any more leaves its
connections open until the process ends.
"""

import contextlib
import sys
from pathlib import Path

from strandline.io import SystemIo
from strandline.testing.faulty_io import FaultyIo
from strandline.values import Durability, Event, StrandlineError
from tests.logs import sqlite_log


def sweep(folder: Path, code: int, *, forever: bool) -> None:
    """Fail the first call, the second, and so on, until the work comes to its end."""
    for nth in range(1, 1000):
        path = str(folder / f"{nth}.sqlite")
        io = FaultyIo(SystemIo())
        fault = io.fail(nth, code, forever=forever)
        acknowledged: dict[int, int] = {}

        with contextlib.suppress(StrandlineError):
            work(path, io, acknowledged)

        with sqlite_log(path, auto_create=True) as again:
            again.append("orders", Event("order", {"n": -1}), durability=Durability.DURABLE)
            low = again.marks("orders", 0).low
            stored: dict[int, int] = {
                r.offset: r.payload["n"] for r in again.read("orders", 0, low)
            }
        lost = {o: n for o, n in acknowledged.items() if o >= low and stored.get(o) != n}
        assert not lost, f"nth={nth}"
        if not fault.fired:
            return
    raise AssertionError("the work never came to its end")


def work(path: str, io: FaultyIo, acknowledged: dict[int, int]) -> None:
    """Append, sync, trim and flush; note what was acknowledged, until something fails."""
    with sqlite_log(path, io=io) as log:
        log.create_topic("orders")
        for number in range(6):
            level = Durability.DURABLE if number % 2 else Durability.WRITTEN
            event = Event("order", {"n": number})
            acknowledged[log.append("orders", event, durability=level).offset] = number
        log.ack("orders", "billing", 0, 2)
        log.trim("orders", 0, 1)
        log.flush()


if __name__ == "__main__":
    sweep(Path(sys.argv[1]), int(sys.argv[2]), forever=sys.argv[3] == "forever")
