"""A quick measurement of a log on this machine's disk: what an installed user can compare."""

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from strandline.clock import Clock
from strandline.log import Log
from strandline.values import Durability, Event

_PAYLOAD = {"id": 17, "customer": "c-9", "lines": [{"sku": "a-1", "count": 2, "cents": 1990}] * 3}
_MANY = 1000


class Measured(NamedTuple):
    """How fast one thing went."""

    name: str
    unit: str
    amount: int
    seconds: float

    @property
    def per_second(self) -> float:
        """How many in a second."""
        return self.amount / self.seconds


def measure(log: Log, clock: Clock, seconds: float) -> Iterator[Measured]:
    """Yield each measurement; each takes about `seconds`."""
    log.create_topic("bench")
    event = Event("order.created", _PAYLOAD, key="c-9")
    many = [event] * _MANY

    def written() -> int:
        log.append("bench", event)
        return 1

    def durable() -> int:
        log.append("bench", event, durability=Durability.DURABLE)
        return 1

    def batched() -> int:
        log.append_many("bench", many)
        return _MANY

    yield _run("append, written", "events", written, clock, seconds)
    yield _run("append, durable", "events", durable, clock, seconds)
    yield _run("append_many of 1,000, written", "events", batched, clock, seconds)
    end = log.marks("bench", 0).high

    def replayed() -> int:
        return sum(1 for _ in log.read("bench", 0, 0, end))

    def columns() -> int:
        return sum(batch.num_rows for batch in log.read_batches("bench", 0, 0, end))

    yield _run("replay as records", "events", replayed, clock, seconds)
    yield _run("replay as Arrow", "events", columns, clock, seconds)


def _run(name: str, unit: str, act: Callable[[], int], clock: Clock, seconds: float) -> Measured:
    act()
    count, start = 0, clock.monotonic()
    while (spent := clock.monotonic() - start) < seconds or not count:
        count += act()
    return Measured(name, unit, count, max(spent, 1e-9))


def checkout() -> str | None:
    """Return the directory of a checkout that the program is run in, if it is one."""
    here = os.getcwd()
    from strandline.io import SystemIo  # noqa: PLC0415 For this alone.

    wanted = (os.path.join(here, "benchmarks", "__main__.py"), os.path.join(here, "src"))
    return here if all(map(SystemIo().exists, wanted)) else None
