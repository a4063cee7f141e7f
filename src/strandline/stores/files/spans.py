"""Finding places in a partition: by limits, by timestamp, by size."""

from strandline.stores.files.entries import entries_of
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.reading import Span
from strandline.stores.files.segment import FRAMES_AT
from strandline.stores.files.state import State
from strandline.values import InvalidError, Marks, Offset, TrimmedError

_NOTHING = Marks(Offset(0), Offset(0), Offset(0))


def marks_of(state: State | None) -> Marks:
    """Return where a partition begins and ends."""
    return _NOTHING if state is None else state.marks


def span(
    files: PartitionFiles,
    wanted: tuple[int, int | None, int | None, int | None],
    *,
    durable_only: bool,
) -> Span:
    """Return what to read for start, end, records_max and bytes_max, or raise."""
    start, end, records_max, bytes_max = wanted
    state = files.look()
    marks = marks_of(state)
    check_kept(files, marks, start)
    if state is not None and start < state.local:
        raise TrimmedError(state.local, **_place(files, start))
    if end is not None and end < start:
        raise InvalidError("the end lies before the start", start=start, end=end)
    stop = int(marks.durable if durable_only else marks.high)
    if end is not None:
        stop = min(stop, end)
    if records_max is not None:
        stop = min(stop, start + records_max)
    return Span(state, start, max(start, stop), bytes_max)


def check_kept(files: PartitionFiles, marks: Marks, offset: int) -> Offset:
    """Return `offset` if it lies between the marks, else raise."""
    if offset < marks.low:
        raise TrimmedError(marks.low, **_place(files, offset))
    return check_not_beyond(files, marks, offset)


def check_not_beyond(files: PartitionFiles, marks: Marks, offset: int) -> Offset:
    """Return `offset` if it does not lie beyond the end, else raise InvalidError."""
    if offset > marks.high:
        raise InvalidError(
            "this lies beyond the end of the partition", **_place(files, offset), end=marks.high
        )
    return Offset(offset)


def offset_at(files: PartitionFiles, timestamp_us: int) -> Offset:
    """Return the first offset kept with this timestamp or a later one."""
    state = files.look()
    marks = marks_of(state)
    if state is None or marks.low == marks.high or state.last_us < timestamp_us:
        return marks.high
    for stored in state.manifest.segments:
        end, position = state.end_of(stored)
        last_us = state.last_us if stored.end is None else stored.last_us
        if end <= marks.low or last_us < timestamp_us or end == stored.base:
            continue
        segment = files.segment(state.manifest, stored)
        before: int | None = None
        for place, base, count, frame_us in segment.walk(FRAMES_AT, position):
            if base + count > marks.low and frame_us >= timestamp_us:
                if before is not None:
                    # Headers are not verified on the way: was this one really too early?
                    segment.check(before, position)
                return _in_frame(files, state, max(base, marks.low), timestamp_us)
            before = place
        segment.check(FRAMES_AT if before is None else before, position)
    return marks.high


def _in_frame(files: PartitionFiles, state: State, start: int, timestamp_us: int) -> Offset:
    for file, frame in files.frames(state, start, state.marks.high):
        for entry in entries_of(frame, files.place.kind, file):
            if entry.offset >= start and entry.timestamp_us >= timestamp_us:
                return entry.offset
    return state.marks.high


def first_within(files: PartitionFiles, state: State, bytes_max: int) -> int:
    """Return the offset from which on at most `bytes_max` are kept, or the last record is."""
    over, before = state.size_bytes - bytes_max, state.local
    if over <= 0:
        return state.marks.low
    newest = state.marks.high - 1
    for stored in state.manifest.segments:
        end, _ = state.end_of(stored)
        if over <= 0 or before >= newest:
            break
        whole = stored.base == before and stored.end is not None
        if whole and stored.size_bytes <= over and end <= newest:
            over, before = over - stored.size_bytes, end
            continue
        for file, frame in files.frames(state, before, min(end, newest)):
            for entry in entries_of(frame, files.place.kind, file):
                if before <= entry.offset < newest and over > 0:
                    over -= entry.size_bytes
                    before = entry.offset + 1
            if over <= 0:
                break
    return before


def _place(files: PartitionFiles, offset: int) -> dict[str, object]:
    place = files.place
    return {"topic": place.topic.name, "partition": place.partition, "offset": offset}
