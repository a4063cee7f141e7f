"""Publish, attach and fail, in a seeded order: what readers see must not depend on it.

One thread, so that a seed is a schedule: publishes fall between any two looks that a
reader takes at the log, wake-ups are lost, and reads fail for a while.
"""

import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa

import strandline as sl
from strandline.log import Hint, Log
from strandline.testing import FakeClock
from strandline.typed import Scope, ScopedSubscription
from strandline.typed.readers import Readers
from strandline.typed.versions import SchemaVersions
from strandline.values import Marks, UnavailableError

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])
TENANTS = ("a", "b", None)
_TRIES_MAX = 200


class GatedLog:
    """Forwards to a log; lets something happen at each look, loses hints, fails reads."""

    def __init__(self, inner: sl.Log) -> None:
        self._inner = inner
        self.at_look: Callable[[], None] = lambda: None
        self.loses: Callable[[], bool] = lambda: False
        self.fails: Callable[[], bool] = lambda: False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def watch(self, *, durable_only: bool = False) -> "GatedWatch":
        self.at_look()
        return GatedWatch(self, self._inner.watch(durable_only=durable_only))

    def marks(self, *place: Any) -> Marks:
        self._look()
        marks = self._inner.marks(*place)
        self.at_look()
        return marks

    def read(self, *args: Any, **options: Any) -> Iterator[sl.Record]:
        self._look()
        found = list(self._inner.read(*args, **options))
        self.at_look()
        return iter(found)

    def _look(self) -> None:
        self.at_look()
        if self.fails():
            raise UnavailableError("the store rests")


class GatedWatch:
    """Forwards to a watch, and loses what its log says."""

    def __init__(self, log: GatedLog, inner: Any) -> None:
        self._log = log
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def add(self, *place: Any) -> None:
        self._inner.add(*place)
        self._log.at_look()

    def wait(self, timeout_s: float | None = None) -> Collection[Hint]:
        return [hint for hint in self._inner.wait(timeout_s) if not self._log.loses()]


@dataclass
class Follower:
    """A reader, where it began, and what it was given."""

    tenant: str | None
    begin: int
    stream: ScopedSubscription[Any]
    seen: list[tuple[int, int]] = field(default_factory=list)

    def take(self, count: int) -> bool:
        """Take so many at most; return whether there was one."""
        for number in range(count):
            try:
                delivered = self.stream.next(0.0)
            except UnavailableError:
                return True
            if delivered is None:
                return number > 0
            self.seen.append((delivered.offset, delivered.batch.column("n")[0].as_py()))
        return True


class Schedule:
    """One order of things, from a seed."""

    def __init__(self, log: sl.Log, clock: FakeClock, topic: str, seed: int) -> None:
        self._rng = random.Random(seed)
        self._clock = clock
        self._log = GatedLog(log)
        self._topic = log.scope().register(topic, SCHEMA)
        self._publishers = {tenant: log.scope(tenant) for tenant in TENANTS}
        self._total = self._rng.randint(4, 31)
        self._owners: list[str | None] = []
        self._followers: list[Follower] = []

    def run(self) -> str:
        """Return what went wrong; nothing if every reader got what was its."""
        rng, log = self._rng, self._log
        log.loses = lambda: rng.random() < 0.4
        log.fails = lambda: rng.random() < 0.1
        log.at_look = lambda: self._publish() if rng.random() < 0.15 else None
        attachments = rng.randint(1, 3)
        while len(self._owners) < self._total or len(self._followers) < attachments:
            act = rng.randrange(4)
            if act == 0 and len(self._followers) < attachments:
                self._attach()
            elif act == 1 and self._followers:
                rng.choice(self._followers).take(rng.randint(1, 4))
            elif act == 2:
                self._clock.advance(rng.choice((0.3, 1.1)))
            else:
                self._publish()
        return self._end()

    def _publish(self) -> None:
        if len(self._owners) == self._total:
            return
        tenant, number = self._rng.choice(TENANTS), len(self._owners)
        # Before the append: a reader of it is checked against what was meant.
        self._owners.append(tenant)
        batch = pa.RecordBatch.from_pydict({"n": [number]}, SCHEMA)
        assert self._publishers[tenant].publish(self._topic, batch).offset == number

    def _attach(self) -> None:
        tenant = self._rng.choice(TENANTS)
        begin = self._rng.randint(0, len(self._owners))
        options: Any = {"versions": SchemaVersions(), "readers": Readers(), "clock": self._clock}
        scope = Scope(cast("Log", self._log), tenant, **options)
        try:
            stream = scope.subscribe(
                self._topic, start=begin, read_ahead=self._rng.choice((1, 2, 5))
            )
        except UnavailableError:
            return
        self._followers.append(Follower(tenant, begin, stream))

    def _end(self) -> str:
        self._log.fails = lambda: False
        for follower in self._followers:
            for _ in range(_TRIES_MAX):
                if not follower.take(100):
                    break
                self._clock.advance(1.1)
            self._clock.advance(1.1)
            follower.take(100)
            follower.stream.close()
        return next(filter(None, map(self._wrong, self._followers)), "")

    def _wrong(self, follower: Follower) -> str:
        expected = [
            (offset, offset)
            for offset, owner in enumerate(self._owners)
            if offset >= follower.begin and owner in (None, follower.tenant)
        ]
        if follower.seen == expected:
            return ""
        return f"from {follower.begin} as {follower.tenant}: {follower.seen}, not {expected}"


def run(seed: int) -> None:
    """Run one schedule on a fresh log."""
    clock = FakeClock()
    with sl.open("memory:", clock=clock) as log:
        wrong = Schedule(log, clock, "orders", seed).run()
        assert not wrong, f"seed {seed}: {wrong}"
