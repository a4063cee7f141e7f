"""A log in memory whose hints and reads tests control, and what most tests have in common."""

import random
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, cast

from strandline.clock import Clock, SystemClock
from strandline.log import Hint, Log, TopicName, Watch
from strandline.subscriptions import Marker, Subscription
from strandline.values import Event, Marks, Record, UnavailableError
from tests.logs import memory_log

PATIENCE_S = 20.0
"""How long a test waits for what must happen; only a failure takes as long."""

Steer = Callable[[Collection[Hint]], Collection[Hint]]


class SteeredWatch:
    """Forwards to a real watch; of its hints it returns those that `steer` selects."""

    def __init__(
        self, inner: Watch, steer: Steer, clock: Clock, on_close: Callable[[], None]
    ) -> None:
        self._inner = inner
        self._on_close = on_close
        self.steer = steer
        self._clock = clock
        self.is_closed = False
        self.entered = threading.Event()
        self.places: set[tuple[str, int]] = set()

    def add(self, topic: TopicName, partition: int, seen: int) -> None:
        self._inner.add(topic, partition, seen)
        self.places.add((getattr(topic, "name", str(topic)), partition))

    def remove(self, topic: TopicName, partition: int) -> None:
        self._inner.remove(topic, partition)
        self.places.discard((getattr(topic, "name", str(topic)), partition))

    def wait(self, timeout_s: float | None = None) -> Collection[Hint]:
        deadline = None if timeout_s is None else self._clock.monotonic() + timeout_s
        self.entered.set()
        while hints := self._inner.wait(self._left_s(deadline)):
            if passed := self.steer(hints):
                return passed
        return ()

    async def wait_on_loop(self, timeout_s: float | None = None) -> Collection[Hint]:
        deadline = None if timeout_s is None else self._clock.monotonic() + timeout_s
        self.entered.set()
        while hints := await self._inner.wait_on_loop(self._left_s(deadline)):
            if passed := self.steer(hints):
                return passed
        return ()

    def wake(self) -> None:
        self._inner.wake()

    def close(self) -> None:
        self._inner.close()
        self.is_closed = True
        self._on_close()

    def _left_s(self, deadline: float | None) -> float | None:
        return None if deadline is None else max(0.0, deadline - self._clock.monotonic())


class SteeredLog:
    """Forwards to a log in memory; counts what is read, and fails reads on request."""

    def __init__(self, *, clock: Clock | None = None, steer: Steer = lambda hints: hints) -> None:
        self.clock = clock or SystemClock()
        self.inner = memory_log(clock=self.clock)
        self.steer = steer
        self.watches: list[SteeredWatch] = []
        self.closed = threading.Event()
        self.reads = 0
        self.records_read = 0
        self.records_asked_max = 0
        self.unavailable: set[int] = set()
        self.before_read: Callable[[int], None] = lambda partition: None
        self.after_marks: Callable[[int], None] = lambda partition: None
        self.after_read: Callable[[int], None] = lambda partition: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def watch(self, *, durable_only: bool = False) -> Watch:
        inner = self.inner.watch(durable_only=durable_only)
        watch = SteeredWatch(inner, self.steer, self.clock, self.closed.set)
        self.watches.append(watch)
        return watch

    def marks(self, topic: TopicName, partition: int) -> Marks:
        self._check_available(partition)
        marks = self.inner.marks(topic, partition)
        self.after_marks(partition)
        return marks

    def read(
        self,
        topic: TopicName,
        partition: int,
        start: int,
        *,
        records_max: int,
        bytes_max: int,
        durable_only: bool = False,
    ) -> Iterator[Record]:
        self._check_available(partition)
        self.before_read(partition)
        self.reads += 1
        self.records_asked_max = max(self.records_asked_max, records_max)
        for record in self.inner.read(
            topic,
            partition,
            start,
            records_max=records_max,
            bytes_max=bytes_max,
            durable_only=durable_only,
        ):
            self.records_read += 1
            yield record
        self.after_read(partition)

    @property
    def watches_open(self) -> int:
        return sum(not watch.is_closed for watch in self.watches)

    def as_log(self) -> Log:
        return cast("Log", self)

    def _check_available(self, partition: int) -> None:
        if partition in self.unavailable:
            raise UnavailableError("this partition is unavailable", partition=partition)


def lose_all(hints: Collection[Hint]) -> Collection[Hint]:
    """Steer: no hint ever arrives."""
    return ()


def unreliable(seed: int) -> Steer:
    """Steer: hints are lost, repeated, arrive late, with old ends, and at other readers."""
    rng = random.Random(seed)
    lock = threading.Lock()
    held: list[Hint] = []

    def steer(hints: Collection[Hint]) -> Collection[Hint]:
        with lock:
            held.extend(hint for hint in hints if rng.random() < 0.7)
            rng.shuffle(held)
            passed = held[: rng.randrange(len(held) + 1)]
            del held[: rng.randrange(len(passed) + 1)]
            return passed

    return steer


def fill(log: Log, topic: str, partition: int, count: int) -> None:
    """Append `count` events."""
    events = [Event("counted", n) for n in range(count)]
    receipts = log.append_many(topic, events, partition=partition)
    assert all(receipt.is_settled for receipt in receipts)


def places(items: Iterable[Record | Marker | None]) -> list[tuple[int, int]]:
    """Return (partition, offset) of each of the items, which are records."""
    found = []
    for item in items:
        assert isinstance(item, Record), item
        found.append((int(item.partition), int(item.offset)))
    return found


def take(subscription: Subscription[Any], count: int) -> list[Any]:
    """Return the next `count` items, each within patience."""
    items = [subscription.next(PATIENCE_S) for _ in range(count)]
    assert None not in items, f"fewer items than {count}: {items}"
    return items


def drain(subscription: Subscription[Any]) -> list[Any]:
    """Return everything that is there now."""
    items = []
    while (item := subscription.next(0.0)) is not None:
        items.append(item)
    return items
