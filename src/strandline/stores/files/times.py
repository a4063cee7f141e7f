"""Finds an offset by its timestamp, from the frames alone."""

from strandline.stores.files.entries import entries_of
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.segment import FRAMES_AT
from strandline.stores.files.state import State
from strandline.values import Offset


def offset_at(files: PartitionFiles, timestamp_us: int) -> Offset:
    """Return the first offset kept with this timestamp or a later one."""
    state = files.look()
    if state is None:
        return Offset(0)
    marks = state.marks
    if marks.low == marks.high or state.last_us < timestamp_us:
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
                    # The search does not verify headers: check the frame that was too early.
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
