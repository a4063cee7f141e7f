"""Sends messages: threads that wait for an answer poll for it themselves."""

import threading
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from strandline.locks import Attempt, Signal
from strandline.log.open_state import closed_log
from strandline.stores.kafka.errors import translated
from strandline.stores.kafka.fetching import MessagePlace
from strandline.stores.lost_answer import NotSentError

_POLL_S: Final = 0.1
#: How long a thread waits before it checks whether another one polls.
_LOOK_S: Final = 1.0


class SentMessage:
    """One message, and its answer."""

    __slots__ = ("_answer", "signal")

    def __init__(self) -> None:
        self.signal: Final = Signal()
        self._answer: dict[KafkaError | None, Message] = {}

    @property
    def on_delivery(self) -> Callable[[KafkaError | None, Message], None]:
        """The client's delivery callback.

        It must not run any Python code: an interrupt of the polling thread would be raised in it,
        and the answer, which may be another thread's, would be lost.
        """
        return self._answer.__setitem__

    @property
    def is_over(self) -> bool:
        """Whether the answer has arrived."""
        return bool(self._answer)

    def offset(self, url: str) -> int:
        """Return the offset of the message; LostError, NotSentError if it has none."""
        ((error, message),) = self._answer.items()
        if error is not None:
            raise translated(error, url)
        return message.offset() or 0


class MessageSender:
    """The producer of a log. Any thread may use it.

    Answers are delivered to the thread that polls. Of the waiting threads, one polls until its
    own answer is there, and then another takes over; while none waits, `poll_idle` polls.
    """

    def __init__(self, settings: dict[str, Any], url: str) -> None:
        self._open_producer: Producer | None = Producer(settings)
        self._url = url
        self._polling = threading.Lock()
        self._attempt_polling = Attempt(self._polling)
        self._waiting: set[SentMessage] = set()

    @property
    def producer(self) -> Producer:
        """The client; ClosedError once it is closed."""
        producer = self._open_producer
        if producer is None:
            raise closed_log()
        return producer

    def send(self, place: MessagePlace, value: bytes) -> int:
        """Store a message, and return its offset.

        LostError if there is no answer, NotSentError if it was not stored.
        """
        # Referenced until the answer arrives: `finish` may drop the client in between.
        sent, producer = SentMessage(), self.producer
        try:
            producer.produce(
                place.topic, value, partition=place.number, on_delivery=sent.on_delivery
            )
        except BufferError as error:
            raise NotSentError("too many messages wait to be sent") from error
        except KafkaException as error:
            raise translated(error.args[0], self._url) from error
        self._wait(sent, producer)
        return sent.offset(self._url)

    def poll_idle(self) -> None:
        """Run callbacks that no thread waits for."""
        if self._attempt_polling:
            try:
                self.producer.poll(0)
            finally:
                self._polling.release()
                self._pass_on()

    def finish(self) -> None:
        """Return once everything sent was answered, and close the client."""
        while len(self.producer):
            with self._polling:
                self.producer.poll(_POLL_S)
            self._pass_on()
        # It has no close: its connections and threads end when it is garbage-collected.
        self._open_producer = None

    def _wait(self, sent: SentMessage, producer: Producer) -> None:
        # Register first: each thread that stops polling from now on wakes a waiting one.
        self._waiting.add(sent)
        try:
            while not sent.is_over:
                if self._attempt_polling:
                    try:
                        while not sent.is_over:
                            producer.poll(_POLL_S)
                            self._wake_answered()
                    finally:
                        self._polling.release()
                else:
                    # A polling thread may have been interrupted before it woke another one.
                    sent.signal.wait(_LOOK_S)
                    sent.signal.clear()
        finally:
            self._waiting.discard(sent)
            self._pass_on()

    def _wake_answered(self) -> None:
        for each in tuple(self._waiting):
            if each.is_over:
                each.signal.set()

    def _pass_on(self) -> None:
        """Wake the threads whose answers have arrived, and one more to poll from now on."""
        self._wake_answered()
        for each in tuple(self._waiting):
            if not each.is_over:
                each.signal.set()
                return
