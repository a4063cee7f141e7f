"""Which partitions a subscription reads, changed while it is being read."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence

from strandline.log import Log, TopicName, Watch, count_partitions
from strandline.subscriptions.cursor import Cursors, TopicPartition
from strandline.subscriptions.start import KnownStart, StartPoint, end_of, resolve
from strandline.values import (
    EARLIEST,
    ClosedError,
    InvalidError,
    Offset,
    Partition,
    Topic,
    UnavailableError,
)
from strandline.values.arguments import whole
from strandline.values.partitioning import unknown_partition
from strandline.values.prompt import Shown, few_pairs, prompt_text


class Assignment:
    """The partitions of one subscription. Any call may be made from any thread.

    Each `add` begins a new generation of its partition: records read for an earlier
    generation and not yet handed over are dropped, so that nothing is repeated or
    reordered. `topic` is needed only for a subscription to several topics.
    """

    def __init__(
        self,
        log: Log,
        topics: Mapping[Topic, int],
        cursors: Cursors,
        watch: Watch,
        lock: threading.RLock,
        *,
        durable_only: bool,
    ) -> None:
        self._log = log
        self._durable_only = durable_only
        self._topics = topics
        self._named: dict[str, list[Topic]] = {}
        for each in topics:
            self._named.setdefault(each.name, []).append(each)
        self._cursors = cursors
        self._watch = watch
        self._lock = lock
        self._is_closed = False

    def add(
        self, partition: int, start: StartPoint = EARLIEST, *, topic: TopicName | None = None
    ) -> None:
        """Read this partition too, from `start` on.

        Does nothing if it is assigned already; `start` is ignored then. InvalidError
        if the topic has no such partition or `start` lies beyond the end, TrimmedError
        if that record is no longer stored, ClosedError after the subscription was closed.
        """
        place = self._place(partition, topic)
        with self._lock:
            if self._is_closed:
                raise ClosedError("this subscription was closed, subscribe again")
            if place in self._cursors:
                return
            marks = self._log.marks(*place)
            end = end_of(marks, durable_only=self._durable_only)
            offset = resolve(self._log, place, start, marks, end)
            self._watch.add(*place, end)
            self._cursors.add(place, offset, end)
        self._watch.wake()

    def remove(self, partition: int, *, topic: TopicName | None = None) -> Offset | None:
        """Stop reading this partition; from now on none of its records is returned.

        Returns the offset that would have been next, from which an `add` continues
        without a gap; None if the partition was not assigned.
        """
        place = self._place(partition, topic)
        with self._lock:
            offset = self._cursors.remove(place)
            if offset is not None:
                # A closed log has no watches any more.
                with contextlib.suppress(ClosedError):
                    self._watch.remove(*place)
            return offset

    def assigned(self, *, topic: TopicName | None = None) -> Sequence[Partition]:
        """Return the assigned partitions, ascending."""
        wanted = self._topic(topic)
        with self._lock:
            return sorted(place.partition for place in self._cursors if place.topic == wanted)

    def position(self, partition: int, *, topic: TopicName | None = None) -> Offset:
        """Return the next offset; InvalidError if the partition is not assigned."""
        place = self._place(partition, topic)
        with self._lock:
            if cursor := self._cursors.at(place):
                return cursor.next
        raise InvalidError("this partition is not assigned, add it first", partition=partition)

    def places(self) -> list[tuple[TopicPartition, Offset]]:
        """Return every assigned partition of every topic, with its next offset."""
        with self._lock:
            found = [(place, self._cursors.at(place)) for place in self._cursors]
        return sorted(
            ((place, cursor.next) for place, cursor in found if cursor is not None),
            key=lambda each: (each[0].topic.name, each[0].partition),
        )

    def shown(self) -> Shown:
        """Return the next offset of each partition, to show at a prompt. Takes no lock."""
        found = {place: self._cursors.at(place) for place in list(self._cursors)}
        pairs = {f"{p.topic.name}/{p.partition}": each.next for p, each in found.items() if each}
        return few_pairs(pairs)

    def __repr__(self) -> str:
        return prompt_text("Assignment", self.shown())

    def fault(self, partition: int, *, topic: TopicName | None = None) -> UnavailableError | None:
        """Return why this partition cannot be read at the moment; None if it can.

        Reading is retried automatically.
        """
        place = self._place(partition, topic)
        with self._lock:
            cursor = self._cursors.at(place)
            return None if cursor is None else cursor.fault

    def close(self) -> None:
        """Accept no more partitions."""
        # Without the lock: closing must not wait for any read.
        self._is_closed = True

    def _place(self, partition: int, topic: TopicName | None) -> TopicPartition:
        wanted = self._topic(topic)
        if (whole(partition) or 0) >= self._topics[wanted]:
            # The partition may have been added since.
            count = max(self._topics[wanted], count_partitions(self._log, wanted))
            self._topics = {**self._topics, wanted: count}
        return checked_place(self._topics, wanted, partition)

    def _topic(self, name: TopicName | None) -> Topic:
        if isinstance(name, Topic) and name in self._topics:
            return name
        found = self._named.get(str.__str__(name), []) if isinstance(name, str) else []
        if name is None:
            found = list(self._topics)
        if len(found) == 1:
            return found[0]
        raise InvalidError(
            "name the topic of this subscription that is meant",
            topic=name,
            topics=[topic.name for topic in self._topics],
        )


def checked_place(topics: Mapping[Topic, int], topic: Topic, partition: object) -> TopicPartition:
    """Return the place, or raise InvalidError if the topic does not have it."""
    count = topics[topic]
    number = whole(partition)
    if number is not None and 0 <= number < count:
        return TopicPartition(topic, Partition(number))
    raise unknown_partition(partition, count, topic=topic.name)


def collapse(
    pairs: Iterable[tuple[TopicPartition, KnownStart]],
) -> Mapping[TopicPartition, KnownStart]:
    """Return each partition with its start; InvalidError for two different starts of one."""
    starts: dict[TopicPartition, KnownStart] = {}
    for place, start in pairs:
        if not _is_same(starts.setdefault(place, start), start):
            raise InvalidError(
                "this partition has two starts, keep one",
                topic=place.topic.name,
                partition=place.partition,
                starts=(starts[place], start),
            )
    return starts


def _is_same(one: object, other: object) -> bool:
    # An invalid start is refused where it is used; it must not be compared before.
    return one is other or (isinstance(one, KnownStart) and bool(one == other))
