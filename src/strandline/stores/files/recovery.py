"""Finding the end of a partition in its frames, where no tail can tell it."""

from typing import NamedTuple

from strandline.stores.files.entries import entries_of
from strandline.stores.files.frame import Frame
from strandline.stores.files.manifest import Manifest
from strandline.stores.files.segment import FRAMES_AT, SegmentFile
from strandline.stores.files.tail import Durable
from strandline.values import ValueKind


class Found(NamedTuple):
    """Where the last segment ends, as its frames tell."""

    position: int
    next: int
    crc: int
    last_us: int
    size_bytes: int
    #: The highest durable mark that anything valid tells of.
    durable: int
    #: Bytes beyond the end that are no whole frame: a write that power loss has torn.
    torn_bytes: int
    #: Where the first frame is that was durable and does not verify.
    damaged_at: int | None


def find_end(
    segment: SegmentFile, manifest: Manifest, durable: Durable | None, kind: ValueKind
) -> Found:
    """Return where the frames of the last segment end.

    What does not verify is a torn write if it lies above every durable mark that is
    recorded anywhere, and damage if it lies below one. Damage is passed over: the end
    lies behind everything that was durable, and whoever reads the damaged part is told.
    """
    active = manifest.active
    if durable is not None and durable.segment == active.number:
        _, _, position, expected, crc, last_us, size_bytes = durable
    else:
        position, expected, crc, size_bytes = FRAMES_AT, active.base, 0, 0
        last_us = manifest.segments[-2].last_us if len(manifest.segments) > 1 else 0
    mark = expected
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


def _size(segment: SegmentFile, frame: Frame, kind: ValueKind) -> int:
    return sum(entry.size_bytes for entry in entries_of(frame, kind, segment.path))
