"""Reads a user's Arrow streams and files, one checked message at a time.

A message states the length of its body, and a compressed buffer the length of its
content. Both may be wrong, so allocations are limited by a maximum for each.
"""

import io as streams
import struct
from collections.abc import Iterator
from typing import IO, Any, Final

import pyarrow as pa

from strandline.values.batches import check_content, check_structure
from strandline.values.errors import InvalidError

MESSAGE_BYTES_MAX: Final = 1 << 30
"""The default limit of the size of a message, and of its decompressed content."""

_FILE_MAGIC: Final = b"ARROW1"
_CHUNK_BYTES: Final = 1 << 20

# The numbers of fields in Arrow's Message.fbs, and their places in a table.
_HEADER_TYPE, _HEADER = 1, 2
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
_DICTIONARY_DATA = 1
_BUFFERS, _COMPRESSION = 2, 3


class _Pieces(streams.RawIOBase):
    """Reads in small pieces: allocates memory for existing data, not for the requested length."""

    def __init__(self, file: IO[bytes], bytes_max: int) -> None:
        self._file = file
        self.bytes_max = bytes_max

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self.bytes_max:
            raise InvalidError(
                "this file has a message that is too large, write smaller batches",
                bytes=size,
                bytes_max=self.bytes_max,
            )
        pieces = []
        while size and (piece := self._file.read(min(size, _CHUNK_BYTES))):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def read_arrow(file: IO[bytes], bytes_max: int | None = None) -> "Iterator[pa.RecordBatch]":
    """Yield the batches of an Arrow stream or file, each checked; InvalidError for others."""
    beginning = file.read(len(_FILE_MAGIC) + 2)
    if not beginning.startswith(_FILE_MAGIC):
        # A file is a stream between a magic number and a footer.
        file = _Begun(beginning, file)  # type: ignore[assignment] # As much of one as is needed.
    try:
        yield from _batches(_Pieces(file, MESSAGE_BYTES_MAX if bytes_max is None else bytes_max))
    except (pa.ArrowException, OSError, ValueError, struct.error, MemoryError) as error:
        raise InvalidError("this cannot be read as arrow", reason=str(error)) from error


class _Begun:
    """A file whose beginning was read already."""

    def __init__(self, beginning: bytes, file: IO[bytes]) -> None:
        self._beginning = beginning
        self._file = file

    def read(self, size: int) -> bytes:
        taken, self._beginning = self._beginning[:size], self._beginning[size:]
        return taken or self._file.read(size)


def _batches(file: _Pieces) -> "Iterator[pa.RecordBatch]":
    before = b""
    for message in pa.ipc.MessageReader.open_stream(file):
        size = _content_bytes(message)
        if size > file.bytes_max:
            raise InvalidError(
                "this file has a batch that is too large when decompressed, write smaller batches",
                bytes=size,
                bytes_max=file.bytes_max,
            )
        serialized = message.serialize().to_pybytes()
        if message.type != "record batch":
            # The schema, and dictionaries that the next batches may refer to.
            before += serialized
            continue
        batch = pa.ipc.open_stream(before + serialized).read_next_batch()
        check_structure(batch)
        check_content(batch)
        yield batch
    if not before:
        raise InvalidError("this cannot be read as arrow", reason="there is no schema in it")


def _content_bytes(message: Any) -> int:
    """Return how many bytes the body of a message has once it is decompressed."""
    body = message.body
    if body is None:
        return 0
    metadata = message.metadata.to_pybytes()
    header = _compressed_batch(metadata)
    if header is None:
        return int(body.size)
    return sum(_decompressed(metadata, header, body.to_pybytes()))


def is_compressed(metadata: bytes) -> bool:
    """Whether the body of the message with this metadata is compressed; not for other bytes."""
    try:
        return _compressed_batch(metadata) is not None
    except (struct.error, IndexError):
        return False


def _compressed_batch(metadata: bytes) -> int | None:
    """Return where the batch of a message is, if its body is compressed."""
    (root,) = struct.unpack_from("<I", metadata)
    kind = _field(metadata, root, _HEADER_TYPE)
    header = _table(metadata, root, _HEADER)
    if kind is None or header is None:
        return None
    if metadata[kind] == _DICTIONARY_BATCH:
        header = _table(metadata, header, _DICTIONARY_DATA)
    elif metadata[kind] != _RECORD_BATCH:
        return None
    if header is None or _field(metadata, header, _COMPRESSION) is None:
        return None
    return header


def _decompressed(metadata: bytes, header: int, body: bytes) -> Iterator[int]:
    vector = _table(metadata, header, _BUFFERS)
    if vector is None:
        return
    (count,) = struct.unpack_from("<I", metadata, vector)
    for number in range(count):
        offset, length = struct.unpack_from("<qq", metadata, vector + 4 + 16 * number)
        if length:
            (size,) = struct.unpack_from("<q", body, offset)
            # -1: stored without compression.
            yield length if size < 0 else size


def _table(metadata: bytes, table: int, number: int) -> int | None:
    """Return the position of the table or vector to which a field refers."""
    at = _field(metadata, table, number)
    if at is None:
        return None
    (distance,) = struct.unpack_from("<I", metadata, at)
    return int(at + distance)


def _field(metadata: bytes, table: int, number: int) -> int | None:
    """Return the position of a field in a flatbuffer's table; None if it is absent."""
    (distance,) = struct.unpack_from("<i", metadata, table)
    fields = table - distance
    (length,) = struct.unpack_from("<H", metadata, fields)
    if 4 + 2 * number >= length:
        return None
    (offset,) = struct.unpack_from("<H", metadata, fields + 4 + 2 * number)
    return table + offset if offset else None
