"""Frames: the content of messages, and which of them count. See design 0114."""

from typing import Final, NamedTuple

import msgspec
from confluent_kafka import Message

from strandline.log.identities import IdentityState
from strandline.log.stored_records import StoredRecord
from strandline.stores.frame_marks import FrameMarks
from strandline.stores.frame_records import FrameIdentity, FrameRecord, stored_records
from strandline.values import CorruptError, ValueKind

#: What each frame begins with.
_FORMAT: Final = b"SLF\x01"
#: The name used as `after` by the first frame.
NO_NAME: Final = b""
NAME_BYTES: Final = 16


class Checkpoint(msgspec.Struct, array_like=True, frozen=True):
    """A frame without records, which replaces everything needed of the frames before it."""

    marks: FrameMarks
    identities: IdentityState
    #: The timestamp of the last record, which may be removed.
    last_us: int
    value: bytes | None


class KafkaFrame(msgspec.Struct, array_like=True, frozen=True):
    """The content of one message. It counts if `after` names the last frame that counts before."""

    #: Unique to one write: shows whether a message whose answer was lost was stored.
    name: bytes
    after: bytes
    #: The end of the messages as the writer saw it. A frame stored at that offset certainly
    #: counts, because no message came between.
    claim: int
    #: The offset of the first record.
    start: int
    #: The size of all records before this frame, also of removed ones.
    bytes_before: int
    #: Kafka's offset of the last checkpoint before this frame; -1 for none.
    checkpoint: int
    #: Kafka's offset of the last frame with identities before this frame; -1 for none.
    identified: int
    records: list[FrameRecord]
    identities: list[FrameIdentity]
    saved: Checkpoint | None = None

    @property
    def end(self) -> int:
        """One past the last offset."""
        return self.start + len(self.records)

    def encode(self) -> bytes:
        """Return the frame as it is stored."""
        return _FORMAT + _encoder.encode(self)

    def entries(self, kind: ValueKind) -> list[StoredRecord]:
        """Return its records."""
        return stored_records(self.records, self.start, kind)


_FOREIGN: Final = KafkaFrame(b"\0", b"\0", -1, -1, 0, -1, -1, [], [])
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(KafkaFrame)


class PlacedFrame(NamedTuple):
    """A frame, and its Kafka offset."""

    at: int
    frame: KafkaFrame
    size_bytes: int

    @property
    def is_evident(self) -> bool:
        """Whether it counts whatever came before it."""
        return self.at == self.frame.claim


def placed_frame(message: Message) -> PlacedFrame:
    """Decode a message; CorruptError if it cannot be read.

    Another program's message becomes a frame that does not count.
    """
    at, value = message.offset() or 0, message.value() or b""
    if not value.startswith(_FORMAT):
        return PlacedFrame(at, _FOREIGN, len(value))
    try:
        return PlacedFrame(at, _decoder.decode(memoryview(value)[len(_FORMAT) :]), len(value))
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise CorruptError(
            "this frame of the log cannot be read, restore the topic from a copy",
            file=f"{message.topic()}/{message.partition()}",
            position=at,
        ) from error


class PartitionEnd(NamedTuple):
    """The end of a partition. Implements EndOfFrames."""

    #: Kafka's offset after all messages seen so far.
    end: int
    #: The last frame that counts, and its Kafka offset; -1 for none.
    name: bytes
    at: int
    next: int
    last_us: int
    #: The chain's value at the end; None in a topic without a proof.
    value: bytes | None
    #: The size of all records ever appended, as counted against limits.
    bytes_total: int
    checkpoint: int
    identified: int


def end_after(placed: PlacedFrame) -> PartitionEnd:
    """Return the end of a partition whose last message is this frame, if it counts."""
    at, frame, _ = placed
    identified = at if frame.identities else frame.identified
    if frame.saved is not None:
        return PartitionEnd(
            *(at + 1, frame.name, at, frame.start, frame.saved.last_us, frame.saved.value),
            *(frame.bytes_before, at, identified),
        )
    total = frame.bytes_before + sum(each.size_bytes for each in frame.records)
    last = frame.records[-1]
    return PartitionEnd(
        *(at + 1, frame.name, at, frame.end, last.timestamp_us, last.chained, total),
        *(frame.checkpoint, identified),
    )
