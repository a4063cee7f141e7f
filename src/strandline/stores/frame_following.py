"""Waiting for frames that an engine announces, and reading them without another request."""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol
from weakref import WeakSet

from strandline.clock import Clock
from strandline.locks import Signal
from strandline.log.draft import load
from strandline.log.stored_records import StoredRecord
from strandline.stores.engine_topic import EngineTopic
from strandline.values import Partition, Record, Topic, ValueKind


class AnnouncedFrame(Protocol):
    """A frame of one partition."""

    @property
    def start(self) -> int:
        """The offset of its first record."""

    @property
    def end(self) -> int:
        """One past the offset of its last record."""

    def entries(self, kind: ValueKind, /) -> list[StoredRecord]:
        """Return its records."""


Announced = Callable[[int], Sequence[AnnouncedFrame] | None]
"""Returns the frames from a given offset on; None if only the server has them."""


class FrameFollower:
    """Implements PartitionFollower, for threads only."""

    watch: Final = None

    def __init__(
        self,
        topic: Topic,
        partition: int,
        kind: ValueKind,
        announced: Announced,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._name = topic.name
        self._partition = Partition(partition)
        self._kind = kind
        self._announced = announced
        self._signal = Signal()
        self._is_woken = False

    def wait(self, start: int, records_max: int, timeout_s: float, /) -> list[Record] | None:
        deadline = self._clock.monotonic() + timeout_s
        while True:
            # Cleared before reading: later announcements set it again.
            self._signal.clear()
            if self._is_woken:
                self._is_woken = False
                return None
            frames = self._announced(start)
            if frames is None:
                return None
            if frames:
                return self._records(frames, start)[:records_max]
            left_s = deadline - self._clock.monotonic()
            if left_s <= 0 or not self._clock.wait(self._signal, left_s):
                return None

    def wake(self) -> None:
        self._is_woken = True
        self._signal.set()

    def notice(self) -> None:
        """Wake it to read what was announced. From any thread."""
        self._signal.set()

    def _records(self, frames: Iterable[AnnouncedFrame], start: int) -> list[Record]:
        name, partition, kind = self._name, self._partition, self._kind
        return [
            Record(
                *(name, partition, each.offset, each.timestamp_us, each.key, each.tenant),
                value=load(kind, each.body, each.key),
            )
            for frame in frames
            for each in frame.entries(kind)
            if each.offset >= start
        ]


class FrameFollowers:
    """The followers of one partition. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: WeakSet[FrameFollower] = WeakSet()

    def follower(
        self,
        topic: EngineTopic,
        partition: int,
        start: int,
        announced: Announced,
        clock: Clock,
    ) -> FrameFollower | None:
        """Return a follower from `start` on; None if only the server has that record.

        It is notified of announcements for as long as a reader references it.
        """
        if announced(start) is None:
            return None
        made = FrameFollower(topic.topic, partition, topic.settings.value_kind, announced, clock)
        with self._lock:
            self._all.add(made)
        return made

    def notice(self) -> None:
        """Wake each follower to read what was announced."""
        if self._all:
            with self._lock:
                for each in self._all:
                    each.notice()

    def wake(self) -> None:
        """Have the reader of each follower read by the general path."""
        if self._all:
            with self._lock:
                for each in self._all:
                    each.wake()
