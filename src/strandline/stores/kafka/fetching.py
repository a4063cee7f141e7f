"""Reading messages from an offset of Kafka's on, with a few consumers that are used in turn."""

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
#: A fetch finds what it is asked for, and must not wait for more.
_SETTINGS: Final = {
    "auto.offset.reset": "error",
    "check.crcs": True,
    "enable.auto.commit": False,
    "fetch.queue.backoff.ms": 2,
    "fetch.wait.max.ms": 1,
    "queued.max.messages.kbytes": 16 * 1024,
}


class MessagePlace(NamedTuple):
    """A partition of a topic of Kafka's."""

    topic: str
    number: int


class PooledConsumer:
    """A consumer, and what it would read next."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.place: MessagePlace | None = None
        self.next: int = -1

    def begin(self, place: MessagePlace, at: int) -> None:
        """Read from there on, if this is not where it is."""
        if (self.place, self.next) != (place, at):
            self.consumer.assign([TopicPartition(*place, at)])
            self.place = place

    def end(self, at: int, stop: int) -> None:
        """Record where it is; it reads no further if nothing is left before `stop`."""
        self.next = at
        if at >= stop:
            self.consumer.unassign()
            self.place = None


def polled(consumer: Consumer, timeout_s: float) -> Message:
    """Return the next message, or error; LostError if none comes."""
    while (found := consumer.poll(timeout_s)) is not None:
        if not _is_of_group(found):
            return found
    raise LostError("no message in time")


def consumed(consumer: Consumer, most: int) -> list[Message]:
    """Return what more is there already."""
    return [each for each in consumer.consume(most, 0) if not _is_of_group(each)]


def _is_of_group(found: Message) -> bool:
    """Whether it says that the user may not use groups, which consumers have and we do not use."""
    error = found.error()
    return error is not None and error.code() == NO_GROUPS


class FetchPool:
    """The consumers of one log. Thread-safe.

    One that has not read to its end goes on where it was: what follows is there already.
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

        GoneError if `at` is no longer kept, LostError if nothing comes.
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
                raise LostError("another message than was asked for")
            pooled.end(at + len(found), stop)
            return found

    def close(self) -> None:
        """Close every consumer that is not in use; the others are closed after their use."""
        with self._is_free:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for each in idle:
            each.consumer.close()

    @contextmanager
    def pooled(self, place: MessagePlace, at: int) -> Iterator[PooledConsumer]:
        """Yield a consumer, one that would go on there if there is one."""
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
