"""Finds the end of a partition from its frames, if no tail has it."""

import os
from typing import NamedTuple

from strandline.io import Io
from strandline.stores.files.entries import entries_of
from strandline.stores.files.frame import Frame
from strandline.stores.files.manifest import Manifest
from strandline.stores.files.segment import FRAMES_AT, SegmentFile, begins_with_frame
from strandline.stores.files.tail import Durable, End
from strandline.values import ValueKind


class Found(NamedTuple):
    """The end of the last segment, according to its frames."""

    position: int
    next: int
    crc: int
    last_us: int
    size_bytes: int
    #: The highest durable mark in any valid frame.
    durable: int
    #: Bytes beyond the end that are not a whole frame: a write torn by power loss.
    torn_bytes: int
    #: The position of the first frame that was durable and does not verify.
    damaged_at: int | None


def find_end(
    segment: SegmentFile, manifest: Manifest, durable: Durable | None, kind: ValueKind
) -> Found:
    """Return where the frames of the last segment end.

    A frame that does not verify is a torn write if it lies above every recorded durable
    mark, and damage if it lies below one. Damage is skipped: the end is after everything
    that was durable, and reading the damaged part raises.
    """
    active = manifest.active
    if durable is not None and durable.segment == active.number:
        _, _, position, expected, crc, last_us, size_bytes = durable
    else:
        position, expected, crc, size_bytes = FRAMES_AT, active.base, 0, 0
        last_us = manifest.segments[-2].last_us if len(manifest.segments) > 1 else 0
    # Whatever was trimmed had been durable.
    mark = max(expected, manifest.low)
    for frame in segment.scan(position, expected, crc):
        position, expected, crc = frame.end, frame.stop, frame.crc
        last_us = frame.timestamp_us
        mark = max(mark, frame.durable or 0)
        size_bytes += _size(segment, frame, kind)
    end, damaged_at = segment.length, None
    later = list(segment.search(position, end))
    mark = max(mark, *(frame.durable or 0 for frame in later)) if later else mark
    if mark > expected:
        damaged_at = position
        for frame in later:
            if frame.base >= expected:
                position, expected, crc = frame.end, frame.stop, frame.crc
                last_us = max(last_us, frame.timestamp_us)
                size_bytes += _size(segment, frame, kind)
        expected = max(expected, mark)
    torn_bytes = segment.garbage_after(position, end)
    return Found(position, expected, crc, last_us, size_bytes, mark, torn_bytes, damaged_at)


def is_behind(segment: SegmentFile, end: End) -> bool:
    """Whether whole frames after an end record a durable mark beyond it.

    Such an end comes from an older copy. Other frames beyond it may be a running write.
    """
    frames = segment.scan(end.position, end.next, end.crc)
    return any((frame.durable or 0) > end.next for frame in frames)


def newer_segment(io: Io, directory: str, whose: bytes, manifest: Manifest) -> str | None:
    """Return a segment of the manifest's epoch that has records and that it does not name.

    The manifest names a segment before it gets its first frame, so this one is too old.
    """
    epoch = f"{manifest.epoch.number:010d}-"
    for name in io.list(directory):
        number = name.removeprefix(epoch).removesuffix(".segment")
        if name.startswith(epoch) and number.isdigit() and int(number) >= manifest.next_number:
            path = os.path.join(directory, name)
            if begins_with_frame(io, path, whose):
                return path
    return None


def _size(segment: SegmentFile, frame: Frame, kind: ValueKind) -> int:
    return sum(entry.size_bytes for entry in entries_of(frame, kind, segment.path))
