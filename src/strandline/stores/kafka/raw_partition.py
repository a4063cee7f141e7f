"""One partition of a Kafka topic that other programs write. See design 0131."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar
from uuid import uuid5

from confluent_kafka import Message as KafkaMessage

from strandline.log.ranges import ReadRange, check_range, count_within
from strandline.log.store import PartitionState
from strandline.log.stored_records import StoredRecord
from strandline.stores.kafka.clients import KafkaClients
from strandline.stores.kafka.errors import GoneError, MissingError, StaleError
from strandline.stores.kafka.fetching import MessagePlace
from strandline.stores.kafka.raw_fetching import RawPage
from strandline.stores.lost_answer import LostError
from strandline.values import (
    Epoch,
    Marks,
    Offset,
    Partition,
    Record,
    SourceMessage,
    Topic,
    TrimmedError,
)

R = TypeVar("R")

_KEY_CHARACTERS_MAX: Final = 4096


class RawPartition:
    """Reads messages unchanged, by Kafka's offsets. Thread-safe.

    `check_source` raises if the Kafka topic was deleted or created again.
    """

    #: Hints start with the next message.
    known_end: Final = None

    def __init__(
        self,
        clients: KafkaClients,
        place: MessagePlace,
        topic: Topic,
        check_source: Callable[[], None],
        *,
        is_durable: bool,
    ) -> None:
        self.place = place
        self._clients = clients
        self.topic = topic
        self._check_source = check_source
        self._is_durable = is_durable
        self._epoch = Epoch(0, uuid5(topic.id, str(place.number)), Offset(0))

    def fold(self, messages: Sequence[KafkaMessage]) -> bool:
        """Messages serve only as hints: their content is read separately."""
        return bool(messages)

    def next(self) -> int:
        """Return the end of the partition: up to the last stable offset."""
        return self._asked(lambda: self._clients.stable_ends([self.place])[0])

    def state(self) -> PartitionState:
        """Return the partition as it is now."""
        high = self.next()
        low = min(self._asked(lambda: self._clients.first(self.place)), high)
        durable = high if self._is_durable else low
        marks = Marks(Offset(low), Offset(high), Offset(durable))
        return PartitionState(marks, Offset(low), [self._epoch])

    def since(self, timestamp_us: int) -> Offset:
        """Return the first offset with this timestamp or later; the end if there is none."""
        time_ms = -(-timestamp_us // 1000)
        found = self._asked(lambda: self._clients.first_since(self.place, time_ms))
        end = self.next()
        return Offset(end if found is None else min(found, end))

    def check(self, wanted: ReadRange) -> int:
        """Return where a read ends; raises as `check_range`."""
        state = self.state()
        # Offsets may have gaps, so they do not count records.
        whole = wanted._replace(records_max=None)
        return check_range(whole, state.marks, state.oldest, self.topic, self.place.number)

    def pages(self, wanted: ReadRange) -> Iterator[Sequence[StoredRecord]]:
        """Return the wanted records, in lists; raises as `check` at once."""
        return self._pages(wanted, self.check(wanted))

    def records(self, wanted: ReadRange) -> Iterator[Record]:
        """Return the wanted records."""
        name, number, pages = self.topic.name, Partition(self.place.number), self.pages(wanted)
        return (
            Record(name, number, each.offset, each.timestamp_us, each.key, None, each.body)
            for page in pages
            for each in page
        )

    def _pages(self, wanted: ReadRange, stop: int) -> Iterator[Sequence[StoredRecord]]:
        at, left, size_left = wanted.start, wanted.records_max, wanted.bytes_max
        is_first = True
        while at < stop and left != 0 and size_left != 0:
            found, at = self._fetched(at, stop)
            page = [raw_record(each) for each in found][:left]
            fitting = count_within((each.size_bytes for each in page), size_left)
            if fitting is not None:
                # The first record is yielded however large it is.
                if is_first or sum(each.size_bytes for each in page[:fitting]) <= (size_left or 0):
                    yield page[:fitting]
                return
            if page:
                is_first = False
                yield page
            left = None if left is None else left - len(page)
            if size_left is not None:
                size_left = max(0, size_left - sum(each.size_bytes for each in page))

    def _fetched(self, at: int, stop: int) -> RawPage:
        while True:
            try:
                return self._asked(lambda: self._clients.fetch_raw(self.place, at, stop))
            except GoneError as error:
                low = self.state().marks.low
                if at < low:
                    name, number = self.topic.name, self.place.number
                    raise TrimmedError(low, topic=name, partition=number, offset=at) from error

    def _asked(self, call: Callable[[], R]) -> R:
        tries = self._clients.tries()
        while True:
            self._clients.state.check()
            try:
                return call()
            except (MissingError, StaleError) as error:
                # Not a lookup by name: brokers may create the topic that is asked for.
                self._check_source()
                tries.rest(error)
            except LostError as error:
                tries.rest(error)


def raw_record(message: KafkaMessage) -> StoredRecord:
    """Convert a message to a record: its value, key and headers."""
    found: Any = message.headers()
    headers = tuple((str(name), value) for name, value in found or ())
    key, value = _bytes(message.key()), _bytes(message.value())
    body = SourceMessage(value, key, headers)
    size = len(body) + len(key or b"") + sum(len(n) + len(v or b"") for n, v in headers)
    # -1 stands for no time.
    time_ms = max(0, message.timestamp()[1])
    text = None if key is None else key_text(key)
    offset = Offset(message.offset() or 0)
    return StoredRecord(offset, time_ms * 1000, text, None, body, size, None)


def key_text(key: bytes) -> str:
    """Return a key as text: UTF-8, or else hexadecimal; a long one as its digest."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = "0x" + key.hex()
    if len(text) > _KEY_CHARACTERS_MAX:
        return "sha256:" + hashlib.sha256(key).hexdigest()
    return text


def _bytes(value: "str | bytes | None") -> bytes | None:
    return value.encode() if isinstance(value, str) else value
