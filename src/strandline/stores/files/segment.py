"""Segment files: a header, then frames, then zeros up to the space reserved."""

import threading
from bisect import bisect_right
from collections.abc import Iterator
from struct import Struct
from typing import Final
from uuid import UUID

import google_crc32c

from strandline.io import Io
from strandline.stores.files.checked import FORMAT
from strandline.stores.files.frame import (
    HEADER,
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    Frame,
    decode_frame,
    frame_bytes,
)
from strandline.stores.open_file import OpenFile
from strandline.values import CorruptError, InvalidError

_MAGIC = b"STRANDLN"
_IDENTITY = Struct("<8sHHI16s16sI16s")
_OWNER = Struct("<I16s16s")
_OWNER_AT = 12
_HEADER = Struct(f"<{_IDENTITY.size}sQI")
FRAMES_AT = _HEADER.size

#: Small enough for the buffer to stay in the processor's caches.
_CHUNK_BYTES = 1 << 16
#: One frame in this many bytes is indexed.
_INDEX_BYTES = 64 * 1024
_ENDS_MAX = 256


class SegmentIdentity:
    """The identity that a file's frames carry; its checksum seeds those of the frames."""

    def __init__(
        self, log_id: UUID, topic_id: UUID, partition: int, epoch: int, epoch_id: UUID
    ) -> None:
        self._stored = _IDENTITY.pack(
            _MAGIC,
            FORMAT,
            FRAMES_AT,
            partition,
            log_id.bytes,
            topic_id.bytes,
            epoch,
            epoch_id.bytes,
        )
        self.seed: int = google_crc32c.value(self._stored)

    def header(self, base: int) -> bytes:
        """Return the header of a file whose first offset is `base`."""
        body = _HEADER.pack(self._stored, base, 0)[:-4]
        crc: int = google_crc32c.value(body)
        return body + crc.to_bytes(4, "little")


class SegmentFile:
    """A segment open for reading, with an index of some of its frames. Any thread may use it.

    The file may grow while it is open; no reader reads beyond the end that a tail or a
    manifest has stored.
    """

    def __init__(self, io: Io, path: str, identity: SegmentIdentity, base: int) -> None:
        self.path = path
        self.seed: Final = identity.seed
        self._io = io
        self._file = OpenFile(io, path, "read")
        self.fd: Final = self._file.fd
        # A damaged header does no harm: the checksums identify the frames, too.
        _check_version(io.pread(self.fd, FRAMES_AT, 0), path)
        self._lock = threading.Lock()
        # Invariant: offsets with the positions of their frames, both rising.
        self._places = [(base, FRAMES_AT)]
        #: Where readers have stopped, by offset, for their next read.
        self.ends: dict[int, int] = {}

    @property
    def length(self) -> int:
        """The length of the file, with the space reserved."""
        return self._io.size(self.fd)

    def note(self, offset: int, position: int) -> None:
        """Index that the frame of `offset` begins at `position`."""
        if position - self._places[-1][1] >= _INDEX_BYTES:
            with self._lock:
                if position - self._places[-1][1] >= _INDEX_BYTES:
                    self._places.append((offset, position))

    def note_end(self, offset: int, position: int) -> None:
        """Index that a reader has read up to `offset`, which begins at `position`."""
        if len(self.ends) >= _ENDS_MAX:
            self.ends = {}
        self.ends[offset] = position

    def frames(self, start: int, stop: int, end: int) -> Iterator[Frame]:
        """Yield the frames with the records of [start, stop), verified.

        `end` is where the last known frame ends. CorruptError for a frame that does not
        verify; reading from a later start may still succeed.
        """
        frame, data = self._first(start, end)
        data_at = frame.position
        yield frame
        position, expected = frame.end, frame.stop
        while expected < stop:
            at = position - data_at
            size = frame_bytes(data, at)
            if size is None or at + size > len(data):
                data_at, at = position, 0
                data = self._read(position, end)
            found = decode_frame(self.seed, data, at, position)
            if found is None or found.base != expected:
                raise self._damaged(position)
            self.note(found.base, position)
            yield found
            position, expected = found.end, found.stop
        self.note_end(expected, position)

    def _read(self, position: int, end: int) -> bytes:
        """Return the bytes at `position`, at least the whole frame that begins there."""
        data = self._io.pread(self.fd, max(0, min(_CHUNK_BYTES, end - position)), position)
        size = frame_bytes(data, 0)
        if size is not None and len(data) < size <= end - position:
            data = self._io.pread(self.fd, size, position)
        return data

    def walk(self, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield position, first offset, count and timestamp of each frame, unverified.

        Begins at a frame; ends at `end`, or where there is no header.
        """
        data, data_at = b"", position
        while position < end:
            at = position - data_at
            if len(data) - at < HEADER_BYTES:
                data_at, at = position, 0
                data = self._io.pread(self.fd, min(_CHUNK_BYTES, end - position), position)
            size = frame_bytes(data, at)
            if size is None:
                return
            _, _, _, _, _, _, base, stamp, count, _ = HEADER.unpack_from(data, at)
            yield position, base, count, stamp
            position += size

    def last_frame(self, position: int, end: int) -> Frame:
        """Return the last frame before `end`; `position` is the start of some frame."""
        last = max((each[0] for each in self.walk(position, end)), default=position)
        frame = self._frame_at(last, end)
        if frame is None or frame.end != end:
            raise self._damaged(last)
        return frame

    def place_before(self, offset: int) -> int:
        """Return the position of a frame at or before that of `offset`."""
        return self._places[bisect_right(self._places, offset, key=_offset) - 1][1]

    def frame_with(self, offset: int, end: int) -> Frame:
        """Return the frame with the record of `offset`; CorruptError if none verifies."""
        return self._first(offset, end)[0]

    def _first(self, offset: int, end: int) -> tuple[Frame, bytes]:
        """Return the frame with `offset`, and the bytes read from its start on."""
        position = self.ends.get(offset)
        if position is not None:
            data = self._read(position, end)
            frame = decode_frame(self.seed, data, 0, position)
            if frame is not None and frame.base == offset:
                return frame, data
        return self._find(offset, end), b""

    def _find(self, offset: int, end: int) -> Frame:
        """Return the frame with `offset`, even if headers before it are damaged."""
        position = self.place_before(offset)
        while True:
            position = self._walk_to(offset, position, end)
            frame = self._frame_at(position, end)
            if frame is None:
                frame = next(self.search(position + 1, end), None)
            if frame is None or frame.base > offset:
                raise self._damaged(position)
            if offset < frame.stop:
                return frame
            position = frame.position if frame.position > position else frame.end

    def _walk_to(self, offset: int, position: int, end: int) -> int:
        """Return the start of the frame whose header claims `offset`, or the last before damage."""
        expected: int | None = None
        for place, base, count, _ in self.walk(position, end):
            if expected not in (None, base) or base > offset:
                break
            if expected is not None:
                self.note(base, place)
            position, expected = place, base + count
            if offset < expected:
                break
        return position

    def search(self, position: int, end: int) -> Iterator[Frame]:
        """Yield the frames that verify anywhere after `position`, at any alignment."""
        while position < end:
            data = self._io.pread(self.fd, min(_CHUNK_BYTES, end - position), position)
            at = 0
            while (found := data.find(MAGIC, at)) >= 0:
                at = found + 1
                begins = position + found - MAGIC_AT
                frame = self._frame_at(begins, end) if found >= MAGIC_AT else None
                if frame is not None:
                    yield frame
            # A magic may cross the border of two chunks.
            step = len(data) - MAGIC_AT - len(MAGIC)
            if step <= 0:
                return
            position += step

    def check(self, position: int, end: int) -> None:
        """Raise CorruptError unless the frame that begins at `position` verifies."""
        if self._frame_at(position, end) is None:
            raise self._damaged(position)

    def _frame_at(self, position: int, end: int) -> Frame | None:
        size = self._size_at(position)
        if not size or position + size > end:
            return None
        frame = decode_frame(self.seed, self._io.pread(self.fd, size, position), 0, position)
        if frame is not None:
            self.note(frame.base, position)
        return frame

    def scan(self, position: int, expected: int, previous: int) -> Iterator[Frame]:
        """Yield the consecutive frames from `position` on that verify.

        Used if no tail has the end: the last frame yielded is the last whole one.
        """
        end = self.length
        data, data_at = b"", position
        while True:
            at = position - data_at
            size = frame_bytes(data, at)
            if size is None or at + size > len(data):
                data_at, at = position, 0
                data = self._read(position, end)
            frame = decode_frame(self.seed, data, at, position)
            if frame is None or (frame.base, frame.previous) != (expected, previous):
                return
            self.note(frame.base, position)
            yield frame
            position, expected, previous = frame.end, frame.stop, frame.crc

    def garbage_after(self, position: int, end: int) -> int:
        """Return how many bytes after `position` come before the final zeros."""
        garbage, reading = 0, position
        while reading < end:
            data = self._io.pread(self.fd, min(_CHUNK_BYTES, end - reading), reading)
            if not data:
                break
            if kept := data.rstrip(b"\0"):
                garbage = reading + len(kept) - position
            reading += len(data)
        return garbage

    def _size_at(self, position: int) -> int:
        return frame_bytes(self._io.pread(self.fd, HEADER_BYTES, position), 0) or 0

    def _damaged(self, position: int) -> CorruptError:
        return CorruptError(
            "a frame is damaged, read on after it", file=self.path, position=position
        )


def _offset(place: tuple[int, int]) -> int:
    return place[0]


def _check_version(header: bytes, file: str) -> None:
    """Raise InvalidError if a newer version of strandline has written the header."""
    if header[:8] == _MAGIC and len(header) == FRAMES_AT:
        version = int.from_bytes(header[8:10], "little")
        crc = int.from_bytes(header[-4:], "little")
        if version > FORMAT and crc == google_crc32c.value(header[:-4]):
            raise InvalidError(
                "this segment was written by a newer version of strandline, upgrade to read it",
                file=file,
                format=version,
            )


def owner(log_id: UUID, topic_id: UUID, partition: int) -> bytes:
    """Return the part that the headers of all segments of a partition share."""
    return _OWNER.pack(partition, log_id.bytes, topic_id.bytes)


def begins_with_frame(io: Io, path: str, whose: bytes = b"") -> bool:
    """Whether a segment file holds at least one frame that verifies, of this owner if given."""
    file = OpenFile(io, path, "read")
    try:
        header = io.pread(file.fd, FRAMES_AT, 0)
        size = frame_bytes(io.pread(file.fd, HEADER_BYTES, FRAMES_AT), 0)
        if len(header) < FRAMES_AT or size is None or not header.startswith(whose, _OWNER_AT):
            return False
        seed = google_crc32c.value(header[: _IDENTITY.size])
        return decode_frame(seed, io.pread(file.fd, size, FRAMES_AT), 0, FRAMES_AT) is not None
    finally:
        file.close()
