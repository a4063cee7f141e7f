"""Hints of appends: the server itself announces each frame when it is stored."""

import contextlib
import threading
from collections.abc import Callable, Collection
from typing import Final, TypeAlias

from nats.aio.msg import Msg

from strandline.log.watches import Watches
from strandline.stores.engine_topic import EngineTopic
from strandline.stores.jetstream.connection import NatsConnection
from strandline.stores.jetstream.streams import SEQUENCE, LogNames, StoredMessage
from strandline.stores.topic_ends import TopicEnd, topic_end
from strandline.values import StrandlineError

OnFrame: TypeAlias = "Callable[[TopicEnd, StoredMessage | None], int | None]"
"""Records an announced frame, None if it cannot be read; returns where it ends, or None if
that is unknown."""

#: An announcement may be lost together with its connection.
_POLL_S: Final = 1.0


class JetStreamWatches(Watches[TopicEnd, EngineTopic]):
    """The watches of a log on JetStream."""

    def __init__(
        self,
        connection: NatsConnection,
        names: LogNames,
        end: Callable[[TopicEnd], int | None],
        on_frame: OnFrame,
    ) -> None:
        #: The ends in announcements that were not notified yet.
        announced: dict[TopicEnd, int] = {}
        super().__init__(
            *(connection.clock, topic_end),
            # Frames stored later are announced later.
            lambda place: announced.pop(place, None) or end(place),
            lambda: JetStreamChanges(connection, names, on_frame, announced),
        )


class JetStreamChanges:
    """Implements ChangeSource: listens to the announcements of all partitions of the log."""

    is_for_readers = False

    def __init__(
        self,
        connection: NatsConnection,
        names: LogNames,
        on_frame: OnFrame,
        announced: dict[TopicEnd, int],
    ) -> None:
        self._connection = connection
        self._names = names
        self._on_frame = on_frame
        self._announced = announced
        self._condition = threading.Condition()
        self._subjects: set[str] = set()
        self._places: dict[str, set[TopicEnd]] = {}
        self._is_woken = False

    def add(self, place: TopicEnd, /) -> None:
        subject = self._subject(place)
        with self._condition:
            # Left over from an earlier watch.
            self._announced.pop(place, None)
            places = self._places.setdefault(subject, set())
            places.add(place)
        if len(places) == 1:
            # If that fails, the partition is polled.
            with contextlib.suppress(StrandlineError):
                self._connection.run(self._connection.subscribe(subject, self._on_hint))

    def remove(self, place: TopicEnd, /) -> None:
        subject = self._subject(place)
        with self._condition:
            places = self._places.get(subject, set())
            places.discard(place)
            if places:
                return
            self._places.pop(subject, None)
        with contextlib.suppress(StrandlineError):
            self._connection.run(self._connection.unsubscribe(subject))

    def wait(self, timeout_s: float | None = None, /) -> Collection[TopicEnd]:
        limit_s = _POLL_S if timeout_s is None else min(timeout_s, _POLL_S)
        with self._condition:
            if not self._subjects and not self._is_woken:
                self._condition.wait(limit_s)
            if self._is_woken:
                self._is_woken = False
                return ()
            subjects, self._subjects = self._subjects, set()
            if not subjects:
                # An announcement may have been lost.
                subjects = set(self._places)
            return [place for each in subjects for place in self._places.get(each, ())]

    def found(self) -> None:
        """Polls are rare enough to need no reset."""

    def wake(self) -> None:
        with self._condition:
            self._is_woken = True
            self._condition.notify_all()

    def close(self) -> None:
        """Nothing to do: subscriptions end with the last partition, or with the connection."""

    def _subject(self, place: TopicEnd) -> str:
        return self._names.hint(place.topic.id, place.partition)

    def _on_hint(self, message: Msg) -> None:
        with self._condition:
            places = tuple(self._places.get(message.subject, ()))
        if not places:
            return
        end = None
        # Streams of earlier versions announce without the frame. If it cannot be read, the
        # reader's own read raises.
        if message.data and message.headers is not None:
            with contextlib.suppress(StrandlineError, KeyError, ValueError):
                stored = StoredMessage(int(message.headers[SEQUENCE]), message.data)
                end = self._on_frame(places[0], stored)
        if end is None:
            self._on_frame(places[0], None)
        with self._condition:
            if end is not None:
                self._announced.update(dict.fromkeys(places, end))
            self._subjects.add(message.subject)
            self._condition.notify_all()
