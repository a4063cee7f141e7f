"""Finding the end of a partition in its frames, where no tail can tell it."""

from typing import NamedTuple

from strandline.log.files.entries import entries_of
from strandline.log.files.manifest import Manifest
from strandline.log.files.segment import FRAMES_AT, SegmentFile
from strandline.log.files.tail import Durable
from strandline.values import CorruptError, ValueKind


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


def find_end(
    segment: SegmentFile, manifest: Manifest, durable: Durable | None, kind: ValueKind, end: int
) -> Found:
    """Return where the frames of the last segment end; `end` is the file's length.

    What does not verify is a torn write if it lies above every durable mark that is
    recorded anywhere, and CorruptError if it lies below one.
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
        size_bytes += sum(entry.size_bytes for entry in entries_of(frame, kind, segment.path))
    later = max((frame.durable or 0 for frame in segment.search(position, end)), default=0)
    if max(mark, later) > expected:
        raise CorruptError(
            "a frame that was durable is damaged, read on after it",
            file=segment.path,
            position=position,
        )
    return Found(
        position, expected, crc, last_us, size_bytes, mark, segment.garbage_after(position, end)
    )
