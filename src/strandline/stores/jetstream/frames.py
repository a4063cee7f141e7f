"""Frames: the records of one or several appends to a partition, as one message."""

from collections.abc import Sequence
from typing import Final

import msgspec

from strandline.log.stored_records import StoredRecord
from strandline.stores.frame_records import FrameIdentity, FrameRecord, stored_records
from strandline.stores.jetstream.streams import StoredMessage
from strandline.values import CorruptError, ValueKind

#: The first byte of each frame.
_FORMAT: Final = b"\x01"
#: Upper bounds of a frame's size besides its values, and of each record's.
_FRAME_BYTES: Final = 512
_RECORD_BYTES: Final = 128


class MessageFrame(msgspec.Struct, array_like=True, frozen=True):
    """The content of one message."""

    #: Unique to one write: shows whether a message whose answer was lost was stored.
    id: bytes
    #: The offset of the first record.
    start: int
    #: The size of all records before this frame, also of removed ones.
    bytes_before: int
    #: The sequence of the last frame with identities up to this one; 0 for none.
    identity_sequence: int
    records: list[FrameRecord]
    identities: list[FrameIdentity]

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


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(MessageFrame)


def decode_frame(message: StoredMessage, stream: str) -> MessageFrame:
    """Decode a message; CorruptError if it is not a frame."""
    try:
        if message.data[:1] != _FORMAT:
            raise msgspec.DecodeError("another format")
        return _decoder.decode(message.data[1:])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise CorruptError(
            "this message is not a frame of a log", file=stream, position=message.sequence
        ) from error


def split(records: Sequence[StoredRecord], bytes_max: int) -> list[Sequence[StoredRecord]]:
    """Return runs of records that fit into one frame each; a single record may be larger."""
    runs: list[Sequence[StoredRecord]] = []
    first, size = 0, _FRAME_BYTES
    for index, record in enumerate(records):
        added = record.size_bytes + _RECORD_BYTES
        if index > first and size + added > bytes_max:
            runs.append(records[first:index])
            first, size = index, _FRAME_BYTES
        size += added
    runs.append(records[first:])
    return runs
