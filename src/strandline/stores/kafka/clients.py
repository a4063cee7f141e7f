"""The clients of one log: a producer, an admin client, and some consumers."""

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

from confluent_kafka import (
    OFFSET_END,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from strandline.clock import Clock
from strandline.locks import Latch, start_thread
from strandline.log.open_state import OpenState, closed_log
from strandline.log.patience import patience_s as left_patience_s
from strandline.stores.kafka.address import KafkaAddress
from strandline.stores.kafka.errors import (
    BROKEN,
    GoneError,
    MissingError,
    ThereError,
    final_error,
    translated,
    unreachable,
)
from strandline.stores.kafka.fetching import FetchPool, MessagePlace
from strandline.stores.kafka.raw_fetching import RAW_SETTINGS, RawPage, fetch_raw
from strandline.stores.kafka.sending import MessageSender
from strandline.stores.kafka.tries import KafkaTries
from strandline.stores.lost_answer import LostError
from strandline.values import InvalidError

R = TypeVar("R")

#: The message size that our topics accept: a frame and Kafka's overhead.
MESSAGE_BYTES_MAX: Final = 80 * 1024 * 1024
_SEND_S: Final = 10.0
_REQUEST_S: Final = 5.0
_REFRESH_S: Final = 1.0
_POLL_S: Final = 0.1
_CLIENT: Final = {
    "client.id": "strandline",
    "reconnect.backoff.max.ms": 500,
    "socket.keepalive.enable": True,
    "socket.nagle.disable": True,
    "topic.metadata.refresh.fast.interval.ms": 20,
    # Errors are reported through callbacks.
    "log_level": 2,
}
#: One frame at a time, and retries are done by us: see `Partition.publish`.
_PRODUCER: Final = {
    "acks": "all",
    "linger.ms": 0,
    "message.max.bytes": MESSAGE_BYTES_MAX,
    "message.send.max.retries": 0,
    "message.timeout.ms": int(_SEND_S * 1000),
    "queue.buffering.max.kbytes": 1 << 20,
    "request.timeout.ms": int(_REQUEST_S * 1000),
}
_LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call] # It has no types.
_EARLIEST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call] # As above.
_quiet: Final = logging.getLogger("strandline.kafka")

AskAdmin = Callable[[AdminClient], Mapping[Any, "Future[Any]"]]
"""Makes requests, and returns futures of their answers."""


class KafkaClients:
    """All communication with the brokers. Any thread may use it."""

    def __init__(
        self, address: KafkaAddress, *, clock: Clock, connect_timeout_s: float, patience_s: float
    ) -> None:
        self.url: str = address.shown
        self.clock = clock
        self.state: OpenState = OpenState()
        self.patience_s = patience_s
        self.closing: Final = threading.Event()
        #: Counts lost connections: what was cached before one may be outdated.
        self.losses: int = 0
        self._refusal: KafkaError | None = None
        self._settings = {**address.client, **_CLIENT}
        settings = {**self._settings, "error_cb": self._on_error}
        try:
            self._open_admin: AdminClient | None = AdminClient(settings)
            self._interrupted: AdminClient | None = None
            self._sender = MessageSender({**settings, **_PRODUCER}, self.url)
        except KafkaException as error:
            message = "the client does not take these settings, check the URL and the client's file"
            raise InvalidError(message, url=self.url, reason=error.args[0].str()) from error
        self._readers = FetchPool(self.consumer, self.url)
        self._raw_readers = FetchPool(self.consumer, self.url, **RAW_SETTINGS)
        self._thread = threading.Thread(
            target=self._keep_polling, name="strandline-kafka", daemon=True
        )
        start_thread(self._thread)
        try:
            self._connect(connect_timeout_s)
        except BaseException:
            self.close()
            raise

    def consumer(self, settings: Mapping[str, Any]) -> Consumer:
        """Return a new consumer, which its caller closes."""
        own = {"group.id": "strandline", "receive.message.max.bytes": 2 * MESSAGE_BYTES_MAX}
        return Consumer({**self._settings, **own, **settings})

    def close(self) -> None:
        """Send what was accepted, and close all clients. May be repeated."""
        if self.state.is_inherited or self.state.is_closed:
            return
        self.state.close()
        self.closing.set()
        self._thread.join()
        self._readers.close()
        self._raw_readers.close()
        # It has no close: its connections and threads end when it is garbage-collected.
        self._open_admin = None

    def tries(self, limit_s: float | None = None) -> KafkaTries:
        """Return the retries for a call; the time limit of the call above counts, too."""
        own_s = left_patience_s(self.clock, self.patience_s) if limit_s is None else limit_s
        return KafkaTries(self.url, own_s, self.closing)

    # --- messages ---

    def send(self, place: MessagePlace, value: bytes) -> int:
        """Store a message, and return its offset.

        LostError if there is no answer, NotSentError if it was not stored.
        """
        return self._sender.send(place, value)

    def ends(self, places: Sequence[MessagePlace]) -> list[int]:
        """Return the offset after the last message of each; LostError, NotSentError."""
        return self._offsets(places, _LATEST)

    def first(self, place: MessagePlace) -> int:
        """Return the offset of the first message still stored, or of the next one."""
        return self._offsets([place], _EARLIEST)[0]

    def stable_ends(self, places: Sequence[MessagePlace]) -> list[int]:
        """Return for each the offset of the first message that may still be aborted, or the end."""
        return self._offsets(places, _LATEST, isolation_level=IsolationLevel.READ_COMMITTED)

    def first_since(self, place: MessagePlace, time_ms: int) -> int | None:
        """Return the offset of the first message of this time or later; None if there is none."""
        wanted = OffsetSpec.for_timestamp(time_ms)
        found = self._offsets([place], wanted, least=OFFSET_END)[0]
        return None if found == OFFSET_END else found

    def fetch_raw(self, place: MessagePlace, at: int, stop: int) -> RawPage:
        """Return existing messages of other programs; see `raw_fetching`."""
        self.state.check()
        return fetch_raw(self._raw_readers, self.url, place, at, stop)

    def fetch(self, place: MessagePlace, at: int, stop: int) -> list[Message]:
        """Return existing messages; see FetchPool."""
        self.state.check()
        return self._readers.fetch(place, at, stop)

    def retried(self, call: Callable[[], R], tries: KafkaTries | None = None) -> R:
        """Return the result of a repeatable call, once it is answered."""
        tries = self.tries() if tries is None else tries
        while True:
            self.state.check()
            try:
                return call()
            except LostError as error:
                tries.rest(error)

    def delete_before(self, place: MessagePlace, at: int) -> None:
        """Remove the messages before an offset."""
        records = TopicPartition(place.topic, place.number, at)
        with contextlib.suppress(GoneError):
            self._answered(
                lambda admin: admin.delete_records([records], request_timeout=_REQUEST_S)
            )

    # --- topics ---

    def create_topic(
        self, name: str, partitions: int, replicas: int, config: dict[str, str]
    ) -> None:
        """Create a topic, unless it exists."""
        topic = NewTopic(name, partitions, replicas, config=config)
        with contextlib.suppress(ThereError):
            self._answered(lambda admin: admin.create_topics([topic], request_timeout=_REQUEST_S))

    def refresh(self, topic: str) -> None:
        """Refresh all clients' metadata of an existing topic: it may have more partitions."""
        for client in (self._admin, self._sender.producer):
            # If it fails, the next call fails, too.
            with contextlib.suppress(KafkaException):
                client.list_topics(topic, timeout=_REFRESH_S)

    def add_partitions(self, name: str, partitions: int) -> None:
        """Raise a topic's number of partitions, unless it is high enough."""
        with contextlib.suppress(ThereError):
            wanted = [NewPartitions(name, partitions)]
            self._answered(
                lambda admin: admin.create_partitions(wanted, request_timeout=_REQUEST_S)
            )

    def delete_topic(self, name: str) -> None:
        """Remove a topic, if it exists."""
        with contextlib.suppress(MissingError):
            self._answered(lambda admin: admin.delete_topics([name], request_timeout=_REQUEST_S))

    def replicas(self, name: str) -> list[tuple[int, int]] | None:
        """Return for each partition of a topic its number of replicas, and of those in sync;
        None if there is no such topic."""
        try:
            found = self._described(name)
        except MissingError:
            return None
        return [(len(each.replicas), len(each.isr)) for each in found.partitions]

    def topic_id(self, name: str) -> tuple[str, int] | None:
        """Return the id and the number of partitions of a topic; None if there is none."""
        try:
            found = self._described(name)
        except MissingError:
            return None
        return str(found.topic_id), len(found.partitions)

    def settings_of(self, names: Sequence[str]) -> list[dict[str, str]]:
        """Return the settings of topics."""
        wanted = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        asked = self._answers(
            lambda admin: admin.describe_configs(wanted, request_timeout=_REQUEST_S)
        )
        found = [asked[each] for each in wanted]
        return [{name: entry.value for name, entry in each.items()} for each in found]

    def topics_under(self, prefix: str) -> list[str]:
        """Return the names of the topics with this prefix."""
        try:
            found = self._admin.list_topics(timeout=_REQUEST_S)
        except KafkaException as error:
            raise translated(error.args[0], self.url) from error
        return sorted(name for name in found.topics if name.startswith(prefix))

    def brokers(self) -> int:
        """Return how many brokers there are."""
        found = self._answered(
            lambda admin: {None: admin.describe_cluster(request_timeout=_REQUEST_S)}
        )
        return len(found[0].nodes)

    # --- inside ---

    @property
    def _admin(self) -> AdminClient:
        admin = self._open_admin
        if admin is None:
            raise closed_log()
        return admin

    def _offsets(
        self,
        places: Sequence[MessagePlace],
        which: OffsetSpec,
        *,
        least: int = 0,
        **more: IsolationLevel,
    ) -> list[int]:
        wanted = {TopicPartition(*place): which for place in places}
        answers = self._answered(
            lambda admin: admin.list_offsets(wanted, request_timeout=_REQUEST_S, **more)
        )
        found = [int(each.offset) for each in answers]
        if min(found) < least:
            # While a partition changes its leader, an answer may come without an offset.
            raise LostError(f"a broker gave no offset: {min(found)}")
        return found

    def _described(self, name: str) -> Any:
        names = TopicCollection([name])
        (found,) = self._answered(
            lambda admin: admin.describe_topics(names, request_timeout=_REQUEST_S)
        )
        return found

    def _answered(self, ask: AskAdmin) -> list[Any]:
        """Return the answers to requests in order; LostError if one is missing."""
        return list(self._answers(ask).values())

    def _answers(self, ask: AskAdmin) -> dict[Any, Any]:
        self.state.check()
        admin = self._admin
        try:
            asked = ask(admin)
            # Wait for all: the client must not be closed while a request is running.
            _wait_for_all(asked.values())
            return {each: answer.result() for each, answer in asked.items()}
        except KafkaException as error:
            raise translated(error.args[0], self.url) from error
        except BaseException as error:
            # An interrupt: no thread waits for the answers.
            self._interrupted = admin
            if isinstance(error, SystemError) and isinstance(error.__cause__, KeyboardInterrupt):
                # How the client reports an interrupt that arrives while it accepts a request.
                raise KeyboardInterrupt from error
            raise

    def _connect(self, timeout_s: float) -> None:
        try:
            self.retried(self._check_access, self.tries(timeout_s))
        except LostError as error:
            raise unreachable(self.url, error) from error

    def _check_access(self) -> None:
        """Return once a broker has answered; a refusal is repeated to later calls."""
        try:
            self.brokers()
        except Exception as error:
            refused = None if self._refusal is None else final_error(self._refusal, self.url)
            if refused is not None:
                raise refused from error
            raise

    def _on_error(self, error: KafkaError) -> None:
        _quiet.debug("kafka: %s", error)
        if error.code() in BROKEN:
            self.losses += 1
        elif final_error(error, self.url) is not None:
            self._refusal = error

    def _keep_polling(self) -> None:
        while not self.closing.wait(_POLL_S):
            self._sender.poll_idle()
        self._sender.finish()


def _wait_for_all(answers: "Collection[Future[Any]]") -> None:
    """Wait until each request is answered; an interrupt of the main thread locks no answer.

    `wait` takes the locks of all answers. An interrupt may leave one of them locked, and the
    client's thread, which delivers every response, would then block for ever.
    """
    if threading.current_thread() is not threading.main_thread():
        wait(answers)
        return
    are_answered = Latch()

    def wait_here() -> None:
        wait(answers)
        are_answered.set()

    start_thread(threading.Thread(target=wait_here, name="strandline-answers", daemon=True))
    are_answered.wait()
