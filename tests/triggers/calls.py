"""Functions for triggers that note what they were given, and wait where a test wants it."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import strandline as sl
from strandline.clock import SystemClock

CONSUMERS = 2
"""How many consumers a trigger has, each of which looks at its group from time to time."""

PATIENCE_S = 20.0
"""How long a test waits for what must happen; only a failure takes as long."""

_clock = SystemClock()


class Calls:
    """What functions were called with, in order. For any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.seen: list[Any] = []

    def note(self, what: Any) -> None:
        with self._changed:
            self.seen.append(what)
            self._changed.notify_all()

    def wait_for(self, count: int) -> list[Any]:
        """Return what was noted, once that is so much."""
        return self.wait_until(lambda seen: len(seen) >= count)

    def wait_until(self, is_enough: Callable[[list[Any]], bool]) -> list[Any]:
        with self._changed:
            arrived = self._changed.wait_for(lambda: is_enough(self.seen), PATIENCE_S)
            assert arrived, f"this is all that came: {self.seen}"
            return list(self.seen)

    def counted(self) -> Counter[Any]:
        with self._changed:
            return Counter(self.seen)


def wait_until(is_so: Callable[[], bool], what: object = "") -> None:
    """Return once it is so, which must be soon."""
    deadline = _clock.monotonic() + PATIENCE_S
    while not is_so():
        assert _clock.monotonic() < deadline, f"it never came to be: {what}"
        _clock.wait(threading.Event(), 0.002)


def publish(
    log: sl.Log, numbers: Sequence[int], *, key: str | None = None, partition: int | None = 0
) -> None:
    """Append an order for each number."""
    for number in numbers:
        event = sl.Event("order", {"number": number, "id": f"o{number}"}, key=key)
        assert log.append("orders", event, partition=partition).is_settled


def cursors(log: sl.Log, name: str) -> list[int | None]:
    """Return where the trigger's consumer is in each partition."""
    return [log.cursor("orders", name, partition) for partition in range(2)]
