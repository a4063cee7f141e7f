"""Small values by key, replaced by compare-and-set: built from one topic's messages."""

import contextlib
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from strandline.locks import start_thread
from strandline.stores.kafka.changes import (
    AppliedChange,
    KeyCondition,
    KeyedEntry,
    KeyedMessage,
    KeyedState,
    KeyPut,
    decode_message,
)
from strandline.stores.kafka.clients import KafkaClients
from strandline.stores.kafka.errors import (
    GoneError,
    MissingError,
    StaleError,
    unreachable,
)
from strandline.stores.kafka.fetching import MessagePlace
from strandline.stores.lost_answer import LostError, NotSentError
from strandline.values import CorruptError, StrandlineError, UnavailableError, UnknownError

_NAME_BYTES: Final = 16
#: After this many messages a snapshot is stored, and they are deleted.
_SNAPSHOT_AFTER: Final = 4096
_POLL_S: Final = 0.25
_SETTINGS: Final = {
    "auto.offset.reset": "earliest",
    "check.crcs": True,
    "enable.auto.commit": False,
    "fetch.wait.max.ms": 200,
    "fetch.error.backoff.ms": 20,
}
_logger: Final = logging.getLogger("strandline")

NONE: Final = KeyedEntry(0, None)


class KeyedLog:
    """The keyed values of a log. Thread-safe; its own thread follows the topic."""

    def __init__(self, clients: KafkaClients, topic: str) -> None:
        self._clients = clients
        self._place = MessagePlace(topic, 0)
        self._moved = threading.Condition()
        self._state = KeyedState()
        self._error: StrandlineError | None = None
        #: Changes of this process that wait for their outcome.
        self._awaited: dict[bytes, AppliedChange | None] = {}
        self._must_restart = False
        self._thread = threading.Thread(target=self._follow, name="strandline-keyed", daemon=True)
        start_thread(self._thread)

    def catch_up(self) -> None:
        """Return once everything that was stored before this call has been read."""
        tries = self._clients.tries()
        while True:
            end = self._clients.retried(self._end, tries)
            with self._moved:
                if end < self._state.next:
                    # The brokers have lost messages.
                    self._restart()
                    continue
            self._wait_until(end, tries.left_s)
            return

    def get(self, key: str) -> KeyedEntry:
        """Return a key's entry as of the last `catch_up`, or later."""
        with self._moved:
            return self._state.entries.get(key, NONE)

    def under(self, prefix: str) -> Mapping[str, KeyedEntry]:
        """Return the keys with this prefix that have a value, as `get` does."""
        with self._moved:
            return {
                key: each
                for key, each in self._state.entries.items()
                if key.startswith(prefix) and each.value is not None
            }

    def change(self, conditions: Sequence[KeyCondition], puts: Sequence[KeyPut]) -> int | None:
        """Make all changes if all conditions hold; return the new version, or None if not.

        UnknownError if the answer was lost and the outcome cannot be determined.
        """
        name = self._clients.clock.random_bytes(_NAME_BYTES)
        payload = KeyedMessage(name, list(conditions), list(puts)).encode()
        with self._moved:
            self._awaited[name] = None
        try:
            outcome = self._changed(name, payload)
        finally:
            with self._moved:
                del self._awaited[name]
                is_long = self._state.next - self._state.snapshot > _SNAPSHOT_AFTER
        if is_long:
            self._store_snapshot()
        return outcome.version if outcome.is_applied else None

    def close(self) -> None:
        """End the following thread; the clients are closed already."""
        self._thread.join()

    def _end(self) -> int:
        try:
            return self._clients.ends([self._place])[0]
        except (MissingError, StaleError):
            # After a broker's restart, a client may still believe that there is no leader.
            self._clients.refresh(self._place.topic)
            raise

    # --- changing ---

    def _changed(self, name: bytes, payload: bytes) -> AppliedChange:
        tries = self._clients.tries()
        was_lost = False
        while True:
            try:
                try:
                    self._clients.state.check()
                    at = self._clients.send(self._place, payload)
                    was_lost = True
                    self._wait_until(at + 1, tries.left_s)
                except NotSentError as error:
                    self._clients.refresh(self._place.topic)
                    tries.rest(error)
                except LostError as error:
                    was_lost = True
                    self._clients.refresh(self._place.topic)
                    tries.rest(error)
                if was_lost:
                    self.catch_up()
            except UnavailableError as error:
                if was_lost:
                    raise UnknownError(error) from error
                raise
            # A copy that was sent again cannot apply twice: the version has changed by then.
            outcome = self._awaited[name]
            if outcome is not None:
                return outcome

    def _store_snapshot(self) -> None:
        """Store a snapshot in one message, and remove the messages before it."""
        with self._moved:
            claim = self._state.next
            entries = {
                key: each for key, each in self._state.entries.items() if each.value is not None
            }
        name = self._clients.clock.random_bytes(_NAME_BYTES)
        # If that fails, or another process was first, a later change tries again.
        with contextlib.suppress(StrandlineError, LostError, GoneError):
            payload = KeyedMessage(name, [], [], claim, entries).encode()
            if self._clients.send(self._place, payload) == claim:
                self._clients.delete_before(self._place, claim)

    # --- following ---

    def _wait_until(self, end: int, limit_s: float) -> None:
        with self._moved:
            self._moved.wait_for(lambda: self._state.next >= end or self._is_over, limit_s)
            if self._error is not None:
                raise self._error
            self._clients.state.check()
            if self._state.next < end:
                raise unreachable(self._clients.url, "the keyed values cannot be read")

    @property
    def _is_over(self) -> bool:
        return self._error is not None or self._clients.closing.is_set()

    def _restart(self) -> None:
        self._state = KeyedState()
        self._must_restart = True

    def _follow(self) -> None:
        consumer = self._clients.consumer(_SETTINGS)
        try:
            self._begin(consumer)
            while not self._clients.closing.is_set():
                self._step(consumer)
        except StrandlineError as error:
            self._error = error
        except KafkaException as error:
            self._error = UnavailableError(
                "the keyed values cannot be followed, open the log again", reason=str(error)
            )
        finally:
            with self._moved:
                self._moved.notify_all()
            consumer.close()

    def _begin(self, consumer: Consumer) -> None:
        consumer.assign([TopicPartition(*self._place, self._state.next)])

    def _step(self, consumer: Consumer) -> None:
        first = consumer.poll(_POLL_S)
        messages = [] if first is None else [first, *consumer.consume(500, 0)]
        with self._moved:
            if self._must_restart:
                self._must_restart = False
                self._begin(consumer)
                return
            for each in messages:
                if each.error() is None:
                    self._apply(each)
                else:
                    _logger.debug("kafka: %s", each.error())
            self._moved.notify_all()

    def _apply(self, message: Message) -> None:
        at = message.offset() or 0
        if at < self._state.next:
            return
        found = decode_message(message.value() or b"", self._place.topic, at)
        if at > self._state.next:
            # The messages between were deleted, after this snapshot replaced them.
            is_whole = found is not None and found.entries is not None and found.claim == at
            if not is_whole:
                raise _hole(self._place.topic, self._state.next)
        outcome = self._state.apply(found, at, message.timestamp()[1])
        if found is not None and found.name in self._awaited:
            before = self._awaited[found.name]
            if before is None or outcome.is_applied:
                self._awaited[found.name] = outcome


def _hole(topic: str, at: int) -> StrandlineError:
    return CorruptError(
        "messages with keyed values are missing, restore the topic from a copy",
        file=topic,
        position=at,
    )
