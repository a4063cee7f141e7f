"""The last few records of a partition, for a reader that follows it: the shortest way."""

import msgspec

from strandline.log.files.frame import NO_HEADERS, ROWS, decode_event_rows, decode_frame
from strandline.log.files.partition import PartitionFiles
from strandline.values import Event, Offset, Record, ValueKind

#: More than a reader who keeps up finds at a time.
_BYTES_MAX = 1 << 16


def newest(
    files: PartitionFiles, start: int, limits: tuple[int, int], *, durable_only: bool
) -> list[Record] | None:
    """Return the events from `start` to the end of the partition, read at once.

    `limits` are how many records, and bytes of them, it may be.
    None where it is not so simple: where no reader has come to `start` before, where
    there are more than a few frames of rows, or where anything is wrong. Whoever reads on
    the plain way says what.
    """
    place = files.place
    state = files.look() if place.kind is ValueKind.EVENT else None
    segment = None if state is None else files.last_segment(state)
    if state is None or segment is None:
        return None
    records_max, bytes_max = limits
    manifest, position, marks, _, _, _ = state
    at, stop = segment.ends.get(start), marks.high
    # A frame is larger than the records in it count.
    if (
        at is None
        or not 0 < position - at <= min(bytes_max, _BYTES_MAX)
        or not max(marks.low, manifest.local) <= start < stop <= start + records_max
        or (durable_only and marks.durable != stop)
    ):
        return None
    data = place.io.pread(segment.fd, position - at, at)
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
    segment.note_end(stop, position)
    return found
