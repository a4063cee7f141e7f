"""One partition as readers see it: its manifest, its tail, its segments."""

import contextlib
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strandline._core import IS_COMPILED
from strandline.clock import SystemClock
from strandline.io import SystemIo
from strandline.log.store import dropped
from strandline.stores.files.entries import page_of
from strandline.stores.files.frame import Frame
from strandline.stores.files.manifest import Manifest, StoredSegment
from strandline.stores.files.place import Place
from strandline.stores.files.recovery import Found, find_end, is_behind
from strandline.stores.files.segment import FRAMES_AT, SegmentFile
from strandline.stores.files.state import State, agrees, state_at
from strandline.stores.files.tail import (
    DROPPED,
    END_BYTES,
    TAIL_BYTES,
    UNSEALED,
    Durable,
    End,
    Fence,
    Tail,
    is_fenced,
    read_tail,
    unpack,
    unpack_end,
)
from strandline.stores.open_file import OpenFile
from strandline.values import (
    CorruptError,
    DivergedError,
    DroppedError,
    Epoch,
    Marks,
    Offset,
    Record,
    TrimmedError,
)

if TYPE_CHECKING or IS_COMPILED:
    from strandline._core.core import TailWatch

_TRIES = 100
# Calling a named tuple's class is slow, and each look makes some.
_new: Any = tuple.__new__
_SEGMENTS_OPEN_MAX = 8


class _Seen(NamedTuple):
    """The bytes of a tail, and the state read from them."""

    raw: bytes
    state: State
    #: The durable mark in its second slot; None if more than the first two slots was needed.
    tail_durable: int | None


class Newest:
    """The last frames of a partition, as they were written or read."""

    __slots__ = ("content", "records", "which")

    def __init__(self, which: tuple[int, int, int, int, int, int], content: bytes) -> None:
        #: Epoch and number of the segment, first offset, start and end positions, and the
        #: checksum of the last frame: if these are equal, so is the content.
        self.which: Final = which
        self.content: Final = content
        #: Decoded by the first reader.
        self.records: Sequence[Record] | None = None


class PartitionFiles:
    """Reads one partition. Any thread may use it; no read takes a lock of another process."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._io = place.io
        self._lock = threading.Lock()
        self._manifest: Manifest | None = None
        self._tail: OpenFile | None = None
        self._tail_seed = 0
        self._seen: _Seen | None = None
        #: Whether frames beyond the tail's end were looked for in this segment.
        self._is_end_checked = False
        #: By epoch and number, from which their names are made.
        self._segments: OrderedDict[tuple[int, int], SegmentFile] = OrderedDict()
        #: Cached while it is small, for a reader that was at the end of the tail.
        self.newest: Newest | None = None
        #: A frame that a reader has read in part, and its file.
        self._partly_read: tuple[str, Frame] | None = None
        #: What this process knows to be durable; the tail may not have it yet.
        self.known_durable: int = 0
        #: Whether a sync has failed here: what it should have covered may be lost.
        self.has_failed_sync = False
        #: Where threads wait for the tail to change; None if the core is not used for it.
        self.tail_watch: TailWatch | None = None
        if IS_COMPILED and type(place.io) is SystemIo and type(place.clock) is SystemClock:
            self.tail_watch = TailWatch()

    # --- where it begins and ends ---

    def look(self) -> State | None:
        """Return the partition's current state; None if nothing was ever written."""
        tail, seen = self._tail, self._seen
        if tail is not None and seen is not None:
            raw = self._io.pread(tail.fd, TAIL_BYTES, 0)
            if tail.is_in_place():
                if raw == seen.raw:
                    return seen.state
                with self._lock:
                    if tail is not self._tail:
                        return self._look()
                    return self._grown(raw) or self._look(raw)
        with self._lock:
            return self._look()

    def aim(self) -> tuple[State, int] | None:
        """Have the core watch the tail; return its state, and the watch's number for followers.

        None if it cannot be watched, or if it needs more than reading consecutive frames.
        """
        state = self.look()
        with self._lock:
            tail, seen, watch = self._tail, self._seen, self.tail_watch
            if tail is None or seen is None or watch is None or seen.state is not state:
                return None
            end = unpack_end(self._tail_seed, seen.raw)
            if seen.tail_durable is None or end is None or end.boot != self._io.boot_id():
                return None
            manifest, position, marks, *_ = seen.state
            active = manifest.segments[-1].number
            if (end.segment, end.position, end.next) != (active, position, marks.high):
                return None
            number = watch.aim(*(tail, tail.fd, tail.path, *tail.inode), self._tail_seed, seen.raw)
            return (seen.state, number) if number else None

    def marks(self) -> Marks:
        """Return where the partition begins and ends now."""
        state = self.look()
        return _NOTHING if state is None else state.marks

    def epochs(self) -> list[Epoch]:
        """Return the epochs, oldest first."""
        state = self.look()
        if state is None:
            return [Epoch(0, self.place.first_epoch_id(), Offset(0))]
        return state.manifest.lineage()

    def note_durable(self, end: int) -> None:
        """Note that everything before `end` is durable."""
        if end > self.known_durable:
            self.known_durable = end
            self._seen = None

    def close_files(self) -> None:
        """Close every file."""
        with self._lock:
            self._reset()

    def close_segments(self, gone: Iterable[StoredSegment]) -> None:
        """Close segments that were removed: an open file keeps its space."""
        with self._lock:
            for each in gone:
                self._segments.pop((each.epoch, each.number), None)

    def _reset(self) -> None:
        # Segments and all cached state, too: a restored directory has files of the same names.
        self._tail = self._seen = self._manifest = self.newest = self._partly_read = None
        self._segments.clear()
        self.known_durable = 0

    def _grown(self, raw: bytes) -> State | None:
        """Return the state if only the end has moved since the last look.

        None otherwise: if the end's generation, the segment, the durable mark or the fence
        has changed.
        """
        seen, manifest = self._seen, self._manifest
        if seen is None or manifest is None or seen.tail_durable is None:
            return None
        if raw[END_BYTES:] != seen.raw[END_BYTES:]:
            return None
        end, active = unpack_end(self._tail_seed, raw), manifest.segments[-1]
        if (
            end is None
            or end.generation != manifest.generation
            or end.segment != active.number
            or end.boot != self._io.boot_id()
            or end.next < seen.state.marks.high
        ):
            return None
        state = state_at(manifest, end, seen.tail_durable, self.known_durable)
        self._seen = _new(_Seen, (raw, state, seen.tail_durable))
        return state

    def _look(self, raw: bytes | None = None) -> State | None:
        """Read the state again; `raw` is the tail if it was just read."""
        for _ in range(_TRIES):
            is_open = raw is not None or (self._tail is not None and self._tail.is_in_place())
            if not is_open and not self._open():
                return None
            manifest, tail = self._manifest, self._tail
            assert manifest is not None
            if tail is None:
                return self._found_state(manifest, Tail(None, None, None))
            if raw is None:
                raw = self._io.pread(tail.fd, TAIL_BYTES, 0)
            slots = unpack(self._tail_seed, raw)
            state = self._state_of(manifest, tail, slots)
            if state is not None:
                is_plain = slots.end is not None and not is_fenced(raw)
                durable = slots.durable.next if is_plain and slots.durable is not None else None
                self._seen = _Seen(raw, state, durable)
                return state
            self._tail = raw = None
        raise CorruptError(
            "the partition comes and goes",
            file=self.place.directory,
            position=0,
        )

    def _state_of(self, manifest: Manifest, file: OpenFile, tail: Tail) -> State | None:
        """Return the state read from a tail; None if the manifest has to be read again."""
        if tail.fence is not None and tail.fence.epoch == DROPPED:
            self._reset()
            raise self._dropped()
        if tail.end is None:
            tail = read_tail(self._io, file.fd, self._tail_seed)
        end = tail.end
        if end is None:
            return self._without_end(manifest, tail)
        is_of_this_boot = end.boot == self._io.boot_id()
        if end.generation != manifest.generation or tail.fence is not None:
            newest = self.place.load_manifest()
            if newest is None or newest.epoch != manifest.epoch:
                return None
            if newest.generation < end.generation:
                raise CorruptError(
                    "the tail refers to a newer manifest than there is", file=file.path, position=0
                )
            self._manifest = manifest = newest
            self._is_end_checked = False
        if not is_of_this_boot:
            return self._found_state(manifest, tail)
        if not agrees(manifest, end):
            # A concurrent write explains it; an end that does not change is unusable.
            is_same = read_tail(self._io, file.fd, self._tail_seed).end == end
            return self._found_state(manifest, tail) if is_same else None
        return self._tail_state(manifest, file, tail, end)

    def _tail_state(self, manifest: Manifest, file: OpenFile, tail: Tail, end: End) -> State:
        """Return the state read from a tail that agrees with the manifest."""
        if tail.fence is not None:
            end = _sealed_end(tail.fence, end)
        if end.segment != manifest.active.number:
            # A writer is between the manifest of a new segment and its first frame.
            end = end._replace(
                segment=manifest.active.number, position=FRAMES_AT, crc=0, size_bytes=0
            )
        if tail.fence is None and self._is_behind(manifest, file, end):
            return self._found_state(manifest, tail)
        durable = manifest.active.base if tail.durable is None else tail.durable.next
        return state_at(manifest, end, durable, self.known_durable)

    def _is_behind(self, manifest: Manifest, file: OpenFile, end: End) -> bool:
        """Whether the tail is an older copy, as far as the frames prove it.

        Checked once for each manifest, and whenever an end is lower than one seen before.
        """
        seen = self._seen
        is_lower = (
            seen is not None
            and seen.state.manifest == manifest
            and end.next < seen.state.marks.high
        )
        if self._is_end_checked and not is_lower:
            return False
        self._is_end_checked = True
        try:
            segment = self._open_segment(manifest, manifest.active)
        except FileNotFoundError:
            return False  # Reading it raises.
        if not is_lower and not is_behind(segment, end):
            return False
        now = read_tail(self._io, file.fd, self._tail_seed).end
        return now is not None and now.next == end.next

    def _without_end(self, manifest: Manifest, tail: Tail) -> State | None:
        """Return the state if the tail has no end; None as `_state_of`."""
        fence = tail.fence
        if fence is None:
            return self._found_state(manifest, tail)
        newest = self.place.load_manifest()
        if newest is None or newest.epoch != manifest.epoch:
            return None
        self._manifest = newest
        found = self.find_end(newest, tail.durable)
        end = End(
            *(newest.generation, self._io.boot_id(), newest.epoch.number, newest.active.number),
            *(found.position, found.next, found.last_us, newest.low, found.crc, 0),
            found.size_bytes,
        )
        return state_at(newest, _sealed_end(fence, end), found.durable, self.known_durable)

    def _found_state(self, manifest: Manifest, tail: Tail) -> State:
        """Return the state read from the frames, if the tail is older than they are."""
        found = self.find_end(manifest, tail.durable)
        low, high = manifest.low, max(found.next, manifest.low)
        marks = Marks(Offset(low), Offset(high), Offset(max(low, min(found.durable, high))))
        return State(manifest, found.position, marks, found.last_us, found.size_bytes, found.crc)

    def find_end(self, manifest: Manifest, known: Durable | None) -> Found:
        """Return where the frames of the last segment end, by reading them from `known` on."""
        segment = self.segment(manifest, manifest.active)
        return find_end(segment, manifest, known, self.place.kind)

    def _open(self) -> bool:
        """Open the newest manifest and its tail, if any; False if nothing was ever written."""
        self._reset()
        for _ in range(_TRIES):
            self._manifest = self.place.load_manifest()
            if self._manifest is None:
                return False
            self._tail_seed = self.place.tail_seed(self._manifest.epoch.number)
            try:
                self._tail = OpenFile(self._io, self.place.path(self._manifest.tail), "read")
            except FileNotFoundError:
                newest = self.place.load_manifest()
                if newest is not None and newest.epoch == self._manifest.epoch:
                    break
            else:
                break
        assert self._manifest is not None
        self.place.check_newest(self._manifest)
        self._is_end_checked = False
        return True

    def _dropped(self) -> DroppedError:
        return dropped(self.place.topic)

    # --- records ---

    def frames(self, state: State, start: int, stop: int) -> Iterator[tuple[str, Frame]]:
        """Yield the verified frames with the records of [start, stop), and their files.

        TrimmedError if a trim has overtaken it.
        """
        while start < stop:
            state, segment, end, position = self.opened(state, start)
            kept = self.partly_read(segment, start)
            if kept is not None:
                yield segment.path, kept
                start = kept.stop
                continue
            for frame in segment.frames(start, min(stop, end), position):
                yield segment.path, frame
            start = min(stop, end)

    def opened(self, state: State, start: int) -> tuple[State, SegmentFile, int, int]:
        """Return a state in which `start` is stored, and its segment.

        Also one past the segment's last offset, and where its last frame ends.
        TrimmedError if a trim has overtaken `start`.
        """
        while True:
            stored = state.segment_of(start)
            end, position = state.end_of(stored)
            try:
                segment = self._open_segment(state.manifest, stored)
            except FileNotFoundError:
                state = self._newer(state, stored, start)
                continue
            if end <= start:
                raise self._missing(stored)
            return state, segment, end, position

    def partly_read(self, segment: SegmentFile, offset: int) -> Frame | None:
        """Return the frame with `offset`, if a reader has read it in part."""
        kept = self._partly_read
        if kept is not None and kept[0] == segment.path and kept[1].has(offset):
            return kept[1]
        return None

    def keep_partly_read(self, file: str, frame: Frame, offset: int) -> None:
        """Cache a frame that was read up to `offset`, unless that is its end."""
        self._partly_read = (file, frame) if offset < frame.stop else None

    def first_timestamp(self, manifest: Manifest, stored: StoredSegment, position: int) -> int:
        """Return the timestamp of a segment's first record; 0 if it has none."""
        segment = self.segment(manifest, stored)
        try:
            frames = segment.frames(stored.base, stored.base + 1, position)
            return next(frames).timestamp_us
        except CorruptError:
            # Reading the segment raises; until then, 0 is a safe lower bound.
            return 0

    def size_between(self, manifest: Manifest, start: int, stop: int, position: int) -> int:
        """Return the size, as limits count it, of the records of [start, stop) in one segment.

        `position` is where the segment's last frame ends.
        """
        if start >= stop:
            return 0
        segments = manifest.segments
        stored = segments[bisect_right(segments, start, key=lambda each: each.base) - 1]
        segment = self.segment(manifest, stored)
        size_bytes = 0
        # Damage must not prevent trimming.
        with contextlib.suppress(CorruptError):
            for frame in segment.frames(start, stop, position):
                page = page_of(frame, self.place.kind, segment.path, start, stop)
                size_bytes += sum(page.sizes())
        return size_bytes

    def segment(self, manifest: Manifest, stored: StoredSegment) -> SegmentFile:
        """Return a segment, open; CorruptError if it is missing."""
        try:
            return self._open_segment(manifest, stored)
        except FileNotFoundError as error:
            raise self._missing(stored) from error

    def _missing(self, stored: StoredSegment) -> CorruptError:
        path = self.place.segment_path(stored)
        return CorruptError("a segment is missing", file=path, position=0)

    def _open_segment(self, manifest: Manifest, stored: StoredSegment) -> SegmentFile:
        segment = self._segments.get((stored.epoch, stored.number))
        if segment is None:
            identity = self.place.identity(manifest, stored)
            path = self.place.segment_path(stored)
            segment = SegmentFile(self._io, path, identity, stored.base)
            self._segments[stored.epoch, stored.number] = segment
            while len(self._segments) > _SEGMENTS_OPEN_MAX:
                self._segments.popitem(last=False)
        return segment

    def last_segment(self, state: State) -> SegmentFile | None:
        """Return the segment that is written to, if it has been read before."""
        stored = state.manifest.segments[-1]
        return self._segments.get((stored.epoch, stored.number))

    def _newer(self, state: State, missing: StoredSegment, start: int) -> State:
        """Return the current state, in which the segment was trimmed or rewritten."""
        now = self.look()
        if now is None or now.manifest.generation == state.manifest.generation:
            raise self._missing(missing)
        if start > now.marks.high:
            # An older copy has replaced the files read so far.
            place = {"partition": self.place.partition, "offset": start}
            raise DivergedError(now.marks.high, **place)
        if start < now.local:
            raise TrimmedError(now.local, partition=self.place.partition, offset=start)
        return now


def _sealed_end(fence: Fence, end: End) -> End:
    """Return the end of a fenced epoch whose successor is not published yet.

    If the fence has an end, whatever lies beyond may be a fenced writer's. If not, the tail had
    no end: the write being made then was the last, and every successor keeps it.
    """
    return end if fence.next == UNSEALED else end._replace(next=fence.next, position=fence.position)


_NOTHING = Marks(Offset(0), Offset(0), Offset(0))
