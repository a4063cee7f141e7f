"""The fastest read path: the last few records of a partition, for a reader that follows it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from strandline._core import IS_COMPILED
from strandline.io import SystemIo
from strandline.log.ranges import ReadRange
from strandline.stores.files.appends import Frozen
from strandline.stores.files.frame import NO_HEADERS, ROWS, decode_event_rows, decode_frame
from strandline.stores.files.manifest import StoredSegment
from strandline.stores.files.partition import Newest, PartitionFiles
from strandline.stores.files.place import Place
from strandline.stores.files.segment import SegmentFile
from strandline.values import Event, Offset, Record, ValueKind

if TYPE_CHECKING or IS_COMPILED:
    from strandline._core.core import Follower, Reader

#: More bytes than a reader that keeps up finds at a time.
_BYTES_MAX = 1 << 16
#: How many bytes of each partition are cached.
_KEPT_BYTES_MAX = 1 << 13


def newest(files: PartitionFiles, wanted: ReadRange) -> Sequence[Record] | None:
    """Return the events from the start of `wanted` to the end of the partition, in one read.

    `wanted` has no end, and both limits.
    None in any other case: if no reader has reached this start before, if there are more
    than a few frames of rows, or if anything is damaged. The general path then reads on, and
    raises the error.
    """
    place = files.place
    state = files.look() if place.kind is ValueKind.EVENT else None
    segment = None if state is None else files.last_segment(state)
    if state is None or segment is None:
        return None
    start, _, records_max, bytes_max, durable_only = wanted
    assert records_max is not None
    assert bytes_max is not None
    manifest, position, marks, _, _, crc = state
    at, stop, stored = segment.ends.get(start), marks.high, manifest.segments[-1]
    # A frame is larger than its records are counted.
    if (
        at is None
        or not 0 < position - at <= min(bytes_max, _BYTES_MAX)
        or not max(marks.low, manifest.local) <= start < stop <= start + records_max
        or (durable_only and marks.durable != stop)
    ):
        return None
    which = (stored.epoch, stored.number, start, at, position, crc)
    kept = files.newest
    if kept is None or kept.which != which:
        found = _by_core(place, segment, (start, at, stop), position)
        content = b"" if found else place.io.pread(segment.fd, position - at, at)
        kept = Newest(which, content)
        kept.records = found
        if position - at <= _KEPT_BYTES_MAX:
            files.newest = kept
    if kept.records is None:
        kept.records = _events(place, segment, kept.content, (start, at, stop))
    return kept.records


def follower(files: PartitionFiles, start: int) -> "Follower | None":
    """Return a follower that waits for the events from `start` on, and reads them.

    None if no reader has reached the start before, or if the core cannot read the events.
    """
    place, watch = files.place, files.tail_watch
    if watch is None or place.kind is not ValueKind.EVENT or place.is_proved:
        return None
    aimed = files.aim()
    if aimed is None:
        return None
    state, number = aimed
    segment = files.segment(state.manifest, state.manifest.active)
    at = state.position if start == state.marks.high else segment.ends.get(start)
    if at is None or start < state.local:
        return None
    segment.note(start, at)
    reader = Reader(
        *(segment, None, segment.fd, segment.seed, at, start, at, start, at),
        *(place.topic.name, place.partition, _BYTES_MAX, True),
    )
    return Follower(watch, number, reader)


def keep(files: PartitionFiles, stored: StoredSegment, place: tuple[int, int], new: Frozen) -> None:
    """Cache what this process has just written, so that readers need not read it.

    `place` is its first offset, and its position in the segment.
    """
    start, at = place
    if files.place.kind is ValueKind.EVENT and new.position - at <= _KEPT_BYTES_MAX:
        which = (stored.epoch, stored.number, start, at, new.position, new.crc)
        files.newest = Newest(which, b"".join(new.chunks))


def _by_core(
    place: Place, segment: SegmentFile, where: tuple[int, int, int], end: int
) -> list[Record] | None:
    """Return the events of some frames, read by the core; None if there is anything else.

    `where` is as for `_events`; `end` is where the last frame ends.
    """
    if not IS_COMPILED or type(place.io) is not SystemIo:
        return None
    start, at, stop = where
    reader = Reader(
        *(segment, None, segment.fd, segment.seed, at, start, end, stop, end),
        *(place.topic.name, place.partition, _BYTES_MAX, True),
    )
    found = list(reader)
    if reader.base != stop or reader.position != end:
        return None
    segment.note(start, at)
    segment.note_end(stop, end)
    return found


def _events(
    place: Place, segment: SegmentFile, data: bytes, where: tuple[int, int, int]
) -> list[Record] | None:
    """Return the events of some frames; None unless they are whole frames of rows without terms.

    `where` is the first offset, its position in the segment, and one past the last offset.
    """
    start, at, stop = where
    name, number = place.topic.name, place.partition
    found: list[Record] = []
    done, expected = 0, start
    while expected < stop:
        frame = decode_frame(segment.seed, data, done, at + done)
        if frame is None or (frame.kind, frame.flags, frame.base) != (ROWS, 0, expected):
            return None
        try:
            rows = decode_event_rows(frame.body)
        except (ValueError, msgspec.MsgspecError):
            return None
        if len(rows) != frame.records:
            return None
        for row in rows:
            headers = row.headers_json
            event = Event.load(
                *(row.kind, row.payload_json, row.key),
                *(NO_HEADERS if headers is None else headers, row.occurred_at_us),
            )
            stamp, offset = frame.timestamp_us, Offset(expected)
            found.append(Record(name, number, offset, stamp, row.key, None, event))
            expected += 1
        done = frame.end - at
    segment.note(start, at)
    segment.note_end(stop, at + done)
    return found
