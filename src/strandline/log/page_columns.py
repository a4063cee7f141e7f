"""A page of kept records as Arrow columns, alike in every backend."""

from collections.abc import Sequence
from typing import cast

import pyarrow as pa

from strandline.log.history import EventBody, Kept
from strandline.values import Partition


def own_columns(
    partition: Partition, page: Sequence[Kept], rows: Sequence[int]
) -> "list[pa.Array]":
    """Return the columns of RECORD_FIELDS, a row for each entry of the page."""
    return [
        pa.array([partition] * len(page), pa.int32()),
        pa.array([entry.offset for entry in page], pa.int64()),
        pa.array(rows, pa.int32()),
        pa.array([entry.timestamp_us for entry in page], pa.timestamp("us", "UTC")),
        pa.array([entry.key for entry in page], pa.string()),
        pa.array([entry.tenant for entry in page], pa.string()),
    ]


def event_columns(page: Sequence[Kept]) -> "list[pa.Array]":
    """Return the value columns of EVENT_SCHEMA."""
    bodies = [cast("EventBody", entry.body) for entry in page]
    return [
        pa.array([body.kind for body in bodies], pa.string()),
        pa.array([body.payload_json for body in bodies], pa.string()),
        pa.array([body.headers_json for body in bodies], pa.string()),
        pa.array([body.occurred_at_us for body in bodies], pa.timestamp("us", "UTC")),
    ]


def bytes_columns(page: Sequence[Kept]) -> "list[pa.Array]":
    """Return the value column of BYTES_SCHEMA."""
    return [pa.array([entry.body for entry in page], pa.binary())]
