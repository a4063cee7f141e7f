"""Helpers for the rules of the conformance suite."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from strandline.locks import start_thread
from strandline.log import Log, TopicName
from strandline.testing.fake_clock import FakeClock
from strandline.values import RECORD_BYTES_MAX, Event, Offset, StrandlineError

PATIENCE_S = 10.0

E = TypeVar("E", bound=StrandlineError)
R = TypeVar("R")


class OpenLog(Protocol):
    """Opens a new, empty log of the store, for writing.

    The store's test closes the logs, and removes their files.
    """

    def __call__(
        self, *, auto_create: bool = False, record_bytes_max: int = RECORD_BYTES_MAX
    ) -> Log:
        """Return a new log."""


class OpenTimedLog(Protocol):
    """Opens an empty log, with a clock that the rule controls."""

    def __call__(self, clock: FakeClock) -> Log:
        """Return a new log."""


@dataclass
class Caught(Generic[E]):
    """Holds the error once it was raised."""

    error: E | None = None

    @property
    def value(self) -> E:
        """The error."""
        assert self.error is not None
        return self.error


@contextlib.contextmanager
def refused(kind: type[E]) -> Iterator[Caught[E]]:
    """Assert that the block raises an error of this kind."""
    caught: Caught[E] = Caught()
    try:
        yield caught
    except kind as error:
        caught.error = error
        return
    raise AssertionError(f"no {kind.__name__} was raised")


def event(number: int, *, key: str | None = None) -> Event:
    """Return an event that differs from the others."""
    return Event("counted", {"n": number}, key=key)


def fill(log: Log, topic: TopicName, count: int, *, partition: int = 0) -> None:
    """Append `count` events, numbered from 0."""
    log.append_many(topic, [event(number) for number in range(count)], partition=partition)


def numbers(log: Log, topic: TopicName, partition: int = 0, start: int = 0) -> list[object]:
    """Return the numbers of all events from `start` on."""
    return [record.payload["n"] for record in log.read(topic, partition, start)]


def high(log: Log, topic: TopicName, partition: int = 0) -> Offset:
    """Return the high-water mark."""
    return log.marks(topic, partition).high


def started(action: Callable[[], R]) -> Future[R]:
    """Run the action on a daemon thread, which does not prevent the process from ending."""
    outcome: Future[R] = Future()

    def run() -> None:
        try:
            outcome.set_result(action())
        except BaseException as error:  # noqa: BLE001 Raised where the result is read.
            outcome.set_exception(error)

    start_thread(threading.Thread(target=run, daemon=True))
    return outcome


def together(actions: Sequence[Callable[[], R]]) -> list[R]:
    """Run each action on a separate thread, and return what they return."""
    with ThreadPoolExecutor(len(actions)) as pool:
        running = [pool.submit(action) for action in actions]
        return [each.result(PATIENCE_S * 6) for each in running]
