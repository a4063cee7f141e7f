"""Files of events as a room above stages them, for a log to ingest."""

from collections.abc import Sequence

import google_crc32c
import pyarrow as pa

from strandline.io import Io
from strandline.log import Log
from strandline.log.columns import EVENT_SCHEMA
from strandline.log.draft_columns import EventColumns
from strandline.log.staged import StagedRows, staged_layout
from strandline.values import Event

_NAMES = ("_key", "kind", "payload", "headers", "occurred_at")
_SCHEMA = pa.schema(EVENT_SCHEMA.field(name).with_nullable(True) for name in _NAMES)


def stage(
    log: Log, io: Io, path: str, topic: str, groups: Sequence[Sequence[Event]], *, key: str
) -> list[StagedRows]:
    """Fill a file, durable, each group of events to be appended at once; return the groups."""
    layout = staged_layout(log, log.topic(topic), f"{key}-0")
    assert layout is not None
    content, rows = bytes(layout.first_bytes), []
    for number, events in enumerate(groups):
        columns = EventColumns.of(events, 1 << 20)
        assert columns is not None
        batch = pa.RecordBatch.from_arrays(columns.arrays, schema=_SCHEMA)
        message = batch.serialize().to_pybytes()
        content += bytes(layout.each_bytes)
        crc = google_crc32c.value(message)
        about = (len(content), len(message), crc, len(events), columns.size_bytes)
        rows.append(StagedRows(*about, f"{key}-{number}"))
        content += message
    fd = io.open(path, "create_new")
    try:
        io.pwrite(fd, content, 0)
        io.sync(fd)
    finally:
        io.close(fd)
    return rows
