"""Hints of appends: a consumer waits at the end of the watched partitions."""

import contextlib
import threading
from collections.abc import Callable, Collection
from typing import Final

from confluent_kafka import OFFSET_END, Consumer, KafkaException, Message, TopicPartition

from strandline.locks import start_thread
from strandline.log.watches import Watches
from strandline.stores.engine_topic import EngineTopic
from strandline.stores.kafka.clients import KafkaClients
from strandline.stores.kafka.fetching import MessagePlace
from strandline.stores.kafka.partition import KafkaPartition
from strandline.stores.kafka.raw_partition import RawPartition
from strandline.stores.topic_ends import TopicEnd, topic_end
from strandline.values import StrandlineError

#: A consumer may miss messages, for example while its broker restarts.
_LOOK_S: Final = 1.0
_POLL_S: Final = 0.05
_MESSAGES_MAX: Final = 500
_SETTINGS: Final = {
    "auto.offset.reset": "latest",
    "enable.auto.commit": False,
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 20,
    "queued.max.messages.kbytes": 16 * 1024,
}


FindPartition = Callable[[TopicEnd], KafkaPartition | RawPartition]
"""Returns this process's cached partition."""


class KafkaWatches(Watches[TopicEnd, EngineTopic]):
    """The watches of a log on Kafka."""

    def __init__(
        self,
        clients: KafkaClients,
        find: FindPartition,
        end: Callable[[TopicEnd], int | None],
    ) -> None:
        #: The ends in messages that were not notified yet.
        announced: dict[TopicEnd, int] = {}
        super().__init__(
            *(clients.clock, topic_end),
            # Messages stored later arrive later.
            lambda place: announced.pop(place, None) or end(place),
            lambda: KafkaChanges(clients, find, announced),
        )


class KafkaChanges:
    """Implements ChangeSource. Its thread reads from a consumer and notifies."""

    is_for_readers = False

    def __init__(
        self,
        clients: KafkaClients,
        find: FindPartition,
        announced: dict[TopicEnd, int],
    ) -> None:
        self._clients = clients
        self._announced = announced
        self._find = find
        self._condition = threading.Condition()
        self._places: dict[MessagePlace, tuple[KafkaPartition | RawPartition, set[TopicEnd]]] = {}
        self._changed: set[MessagePlace] = set()
        self._is_woken = self._is_closed = False
        #: Whether the consumer must be assigned other partitions.
        self._has_moved = False
        start_thread(threading.Thread(target=self._follow, name="strandline-hints", daemon=True))

    def add(self, place: TopicEnd, /) -> None:
        # If it cannot be found, its reader gets the error.
        with contextlib.suppress(StrandlineError):
            partition = self._find(place)
            with self._condition:
                # Left over from an earlier watch.
                self._announced.pop(place, None)
                _, places = self._places.setdefault(partition.place, (partition, set()))
                places.add(place)
                self._has_moved = True

    def remove(self, place: TopicEnd, /) -> None:
        with self._condition:
            for each, (_, places) in tuple(self._places.items()):
                places.discard(place)
                if not places:
                    del self._places[each]
                    self._has_moved = True

    def wait(self, timeout_s: float | None = None, /) -> Collection[TopicEnd]:
        limit_s = _LOOK_S if timeout_s is None else min(timeout_s, _LOOK_S)
        with self._condition:
            self._condition.wait_for(lambda: self._changed or self._is_woken, limit_s)
            if self._is_woken:
                self._is_woken = False
                return ()
            changed, self._changed = self._changed or set(self._places), set()
            known = [self._places[each][1] for each in changed if each in self._places]
            return [place for places in known for place in places]

    def found(self) -> None:
        """Polls are rare enough to need no reset."""

    def wake(self) -> None:
        with self._condition:
            self._is_woken = True
            self._condition.notify_all()

    def close(self) -> None:
        with self._condition:
            self._is_closed = True

    # --- on its own thread ---

    def _follow(self) -> None:
        consumer = self._clients.consumer(_SETTINGS)
        try:
            while not self._is_closed and not self._clients.closing.is_set():
                if self._has_moved:
                    self._assign(consumer)
                first = consumer.poll(_POLL_S)
                if first is None:
                    continue
                for each in (first, *consumer.consume(_MESSAGES_MAX, 0)):
                    if each.error() is None:
                        self._on_message(each)
        finally:
            consumer.close()

    def _assign(self, consumer: Consumer) -> None:
        with self._condition:
            self._has_moved = False
            known = [(place, found.known_end) for place, (found, _) in self._places.items()]
        # If the end is known, continue from there; otherwise the next message is enough.
        wanted = [
            TopicPartition(*place, OFFSET_END if end is None else end.end) for place, end in known
        ]
        # If that fails, the partitions are polled.
        with contextlib.suppress(KafkaException):
            consumer.assign(wanted)

    def _on_message(self, message: Message) -> None:
        place = MessagePlace(message.topic() or "", message.partition() or 0)
        with self._condition:
            found = self._places.get(place)
        if found is None:
            return
        # The reader gets any error from its own read.
        with contextlib.suppress(StrandlineError):
            found[0].fold([message])
        end = found[0].known_end
        is_seen = end is not None and end.end > (message.offset() or 0)
        if not is_seen and isinstance(found[0], KafkaPartition):
            found[0].followers.wake()
        with self._condition:
            if end is not None and is_seen:
                self._announced.update(dict.fromkeys(found[1], end.next))
            self._changed.add(place)
            self._condition.notify_all()
