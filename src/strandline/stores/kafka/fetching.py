"""Reads messages from a Kafka offset on, with a small pool of consumers."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from strandline.stores.kafka.errors import NO_GROUPS, translated
from strandline.stores.lost_answer import LostError

_CONSUMERS_MAX: Final = 4
_FETCH_S: Final = 5.0
#: How many messages one fetch returns at most.
_MESSAGES_MAX: Final = 512
#: The messages exist already, so a fetch must not wait for more.
_SETTINGS: Final = {
    "auto.offset.reset": "error",
    "check.crcs": True,
    "enable.auto.commit": False,
    "fetch.queue.backoff.ms": 2,
    "fetch.wait.max.ms": 1,
    "queued.max.messages.kbytes": 16 * 1024,
}


class MessagePlace(NamedTuple):
    """A partition of a Kafka topic."""

    topic: str
    number: int


class PooledConsumer:
    """A consumer, and its next position."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.place: MessagePlace | None = None
        self.next: int = -1

    def begin(self, place: MessagePlace, at: int) -> None:
        """Seek to the position, unless the consumer is there already."""
        if (self.place, self.next) != (place, at):
            self.consumer.assign([TopicPartition(*place, at)])
            self.place = place

    def end(self, at: int, stop: int) -> None:
        """Record the position; stop prefetching if nothing is left before `stop`."""
        self.next = at
        if at >= stop:
            self.consumer.unassign()
            self.place = None


def polled(consumer: Consumer, timeout_s: float) -> Message:
    """Return the next message or error; LostError if there is none in time."""
    while (found := consumer.poll(timeout_s)) is not None:
        if not _is_of_group(found):
            return found
    raise LostError("no message in time")


def consumed(consumer: Consumer, most: int) -> list[Message]:
    """Return further messages that were received already."""
    return [each for each in consumer.consume(most, 0) if not _is_of_group(each)]


def _is_of_group(found: Message) -> bool:
    """Whether it reports that the user may not use groups, which we do not need."""
    error = found.error()
    return error is not None and error.code() == NO_GROUPS


class FetchPool:
    """The consumers of one log. Thread-safe.

    One that has not read to its end is reused at its position, where messages are prefetched.
    """

    def __init__(
        self, make: Callable[[dict[str, Any]], Consumer], url: str, **more: str | bool
    ) -> None:
        self._make = make
        self._settings = {**_SETTINGS, **more}
        self._url = url
        self._is_free = threading.Condition()
        self._idle: list[PooledConsumer] = []
        self._count = 0
        self._is_closed = False

    def fetch(self, place: MessagePlace, at: int, stop: int) -> list[Message]:
        """Return messages from `at` on and before `stop`, in order, at least one.

        GoneError if `at` is no longer stored, LostError if nothing arrives.
        """
        with self.pooled(place, at) as pooled:
            pooled.begin(place, at)
            first = polled(pooled.consumer, _FETCH_S)
            found = [first]
            if stop - at > 1:
                found += consumed(pooled.consumer, min(stop - at - 1, _MESSAGES_MAX))
            for each in found:
                error = each.error()
                if error is not None:
                    raise translated(error, self._url)
            if found[0].offset() != at:
                raise LostError("a message with another offset than requested")
            pooled.end(at + len(found), stop)
            return found

    def close(self) -> None:
        """Close idle consumers; the others are closed after use."""
        with self._is_free:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for each in idle:
            each.consumer.close()

    @contextmanager
    def pooled(self, place: MessagePlace, at: int) -> Iterator[PooledConsumer]:
        """Yield a consumer, preferably one at this position."""
        pooled, is_good = self._taken(place, at), False
        try:
            yield pooled
            is_good = True
        except KafkaException as error:
            raise translated(error.args[0], self._url) from error
        finally:
            self._give_back(pooled, is_good=is_good)

    def _taken(self, place: MessagePlace, at: int) -> PooledConsumer:
        with self._is_free:
            while not self._idle and self._count >= _CONSUMERS_MAX:
                self._is_free.wait()
            for each in self._idle:
                if (each.place, each.next) == (place, at):
                    self._idle.remove(each)
                    return each
            if self._idle:
                return self._idle.pop(0)
            self._count += 1
        try:
            return PooledConsumer(self._make(self._settings))
        except BaseException:
            with self._is_free:
                self._count -= 1
            raise

    def _give_back(self, pooled: PooledConsumer, *, is_good: bool) -> None:
        with self._is_free:
            is_kept = is_good and not self._is_closed
            if is_kept:
                self._idle.append(pooled)
            else:
                self._count -= 1
            self._is_free.notify()
        if not is_kept:
            pooled.consumer.close()
