"""The writers of a stream and their progress, computed from its records.

The last record of every append has a mark with what its writer said: producer, epoch and
sequence, the sequence of the stream, and whether the stream was closed by it. So an append and
what is known of its writer are stored together or not at all, and any process that reads the
records computes the same state. See design 0118.
"""

from enum import Enum
from typing import Final, Self

import msgspec

from strandline.values import IDENTITY_AGE_S, CorruptError, Event, InvalidError, Record
from strandline.values.names import RESERVED_PREFIX, check_producer_name

MESSAGE_KIND: Final = "message"
CLOSED_KIND: Final = "stream.closed"
MARK_HEADER: Final = f"{RESERVED_PREFIX}stream"
"""The header of an event that has the mark of an append."""
_KEY_START: Final = f"{MARK_HEADER} "
"""How the key of bytes begins that has the mark of an append."""
PRODUCERS_MAX: Final = 10_000
"""How many producers a stream remembers: those that were seen last."""
_AGE_US: Final = IDENTITY_AGE_S * 1_000_000
_STREAM_SEQ_CHARS_MAX: Final = 200
SAFE_INT_MAX: Final = 2**53 - 1
"""The largest whole number that JavaScript has for certain."""


class ProducerMark(msgspec.Struct, frozen=True, array_like=True):
    """One append of a producer."""

    name: str
    epoch: int
    seq: int

    def check(self) -> Self:
        """Return it; InvalidError if no producer may have this name."""
        check_producer_name(self.name)
        return self


class AppendMark(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is stored with the last record of an append, besides the message."""

    producer: ProducerMark | None = None
    stream_seq: str | None = None
    closes: bool = False
    is_empty: bool = False
    """Whether the record is no message, and says only that the stream was closed."""

    def check(self) -> Self:
        """Return it; InvalidError if it cannot be kept."""
        if self.producer is not None:
            self.producer.check()
        if self.stream_seq is not None and not 0 < len(self.stream_seq) <= _STREAM_SEQ_CHARS_MAX:
            raise InvalidError("Stream-Seq has 1 to 200 characters", chars=len(self.stream_seq))
        return self


class WriterDecision(Enum):
    """The outcome of an append."""

    NEW = "new"
    REPEAT = "repeat"
    CLOSED = "closed"
    FENCED = "fenced"
    GAP = "gap"
    NEW_EPOCH = "new epoch"
    SEQ = "seq"


class SeenProducer(msgspec.Struct):
    """How far a producer is."""

    epoch: int
    seq: int
    seen_at_us: int


class WriterState(msgspec.Struct):
    """The state of a stream's writers, computed from its records before `end`."""

    end: int = 0
    closed_at: int | None = None
    """Where the messages end, for good."""
    closer: ProducerMark | None = None
    stream_seq: str | None = None
    producers: dict[str, SeenProducer] = {}
    """By name, the one that was seen last at the end."""

    @property
    def tail(self) -> int:
        """Where the messages end."""
        return self.end if self.closed_at is None else self.closed_at

    @property
    def is_closed(self) -> bool:
        """Whether no message will follow."""
        return self.closed_at is not None

    def take(self, record: Record) -> None:
        """Apply the next record. Records after the end of a closed stream are not messages."""
        mark = mark_of(record)
        self.end = record.offset + 1
        if mark is None or self.is_closed:
            return
        if mark.producer is not None:
            self._see(mark.producer, record.timestamp_us)
        if mark.stream_seq is not None:
            self.stream_seq = mark.stream_seq
        if mark.closes:
            self.closed_at = record.offset if mark.is_empty else self.end
            self.closer = mark.producer

    def decide(self, mark: AppendMark) -> WriterDecision:
        """Return the outcome of an append."""
        given = mark.producer
        seen = None if given is None else self.producers.get(given.name)
        if given is not None and seen is not None and given.epoch < seen.epoch:
            return WriterDecision.FENCED
        if self.is_closed:
            return self._decide_closed(mark)
        if given is not None and (found := _decide_producer(given, seen)) is not WriterDecision.NEW:
            return found
        if self._is_behind(mark.stream_seq):
            return WriterDecision.SEQ
        return WriterDecision.NEW

    def _decide_closed(self, mark: AppendMark) -> WriterDecision:
        if mark.producer is None:
            return WriterDecision.REPEAT if mark.is_empty and mark.closes else WriterDecision.CLOSED
        return WriterDecision.REPEAT if mark.producer == self.closer else WriterDecision.CLOSED

    def _is_behind(self, stream_seq: str | None) -> bool:
        if stream_seq is None or self.stream_seq is None:
            return False
        return stream_seq.encode() <= self.stream_seq.encode()

    def _see(self, mark: ProducerMark, now_us: int) -> None:
        self.producers.pop(mark.name, None)
        self.producers[mark.name] = SeenProducer(mark.epoch, mark.seq, now_us)
        oldest = next(iter(self.producers))
        is_old = self.producers[oldest].seen_at_us < now_us - _AGE_US
        if len(self.producers) > PRODUCERS_MAX or is_old:
            del self.producers[oldest]


def _decide_producer(given: ProducerMark, seen: SeenProducer | None) -> WriterDecision:
    if seen is None:
        return WriterDecision.NEW if given.seq == 0 else WriterDecision.GAP
    if given.epoch > seen.epoch:
        return WriterDecision.NEW if given.seq == 0 else WriterDecision.NEW_EPOCH
    if given.seq <= seen.seq:
        return WriterDecision.REPEAT
    return WriterDecision.NEW if given.seq == seen.seq + 1 else WriterDecision.GAP


_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(AppendMark).decode


def marked_event(payload: bytes, mark: AppendMark) -> Event:
    """Return a message of JSON with the mark of its append, if that says anything."""
    kind = CLOSED_KIND if mark.is_empty else MESSAGE_KIND
    headers = b"{}"
    if mark != _NOTHING:
        headers = _encode({MARK_HEADER: _encode(mark).decode()})
    return Event.load(kind, payload, None, headers, None)


def mark_key(mark: AppendMark) -> str | None:
    """Return the key of bytes with the mark of their append; None if it says nothing."""
    return None if mark == _NOTHING else _KEY_START + _encode(mark).decode()


def mark_of(record: Record) -> AppendMark | None:
    """Return the mark that a record has; None for one that another face has appended."""
    value = record.value
    if isinstance(value, Event):
        text = (
            value.headers.get(MARK_HEADER) if MARK_HEADER.encode() in value.headers_json else None
        )
    else:
        key = record.key
        text = key[len(_KEY_START) :] if key is not None and key.startswith(_KEY_START) else None
    if text is None:
        return None
    try:
        return _decode(text)
    except msgspec.MsgspecError:
        # Of no stream's making.
        return None


def message_of(record: Record) -> bytes:
    """Return the bytes of a message, as they were appended."""
    value = record.value
    if isinstance(value, Event):
        return value.payload_json
    if isinstance(value, bytes):
        return value
    raise CorruptError("a stream has no batches", file=None, position=record.offset)


_NOTHING: Final = AppendMark()
