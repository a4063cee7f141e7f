"""Events as Arrow columns, as a careful user of pyarrow would lay them out."""

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from benchmarks.events import Sample, samples

SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("payload", pa.string(), nullable=False),
        pa.field("headers", pa.string(), nullable=False),
        pa.field("occurred_at", pa.timestamp("us", "UTC")),
    ]
)

_encode = msgspec.json.Encoder().encode


def batch_of(events: Sequence[Sample]) -> pa.RecordBatch:
    """Return the events as one record batch."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([event.kind for event in events], pa.string()),
            pa.array([event.key for event in events], pa.string()),
            _text([_encode(event.payload) for event in events]),
            _text([_encode(event.headers) for event in events]),
            pa.array([event.occurred_at_us for event in events], SCHEMA.field("occurred_at").type),
        ],
        schema=SCHEMA,
    )


def typed_batches(count: int, rows: int) -> list[pa.RecordBatch]:
    """Return different record batches of `rows` rows each."""
    events = samples(count * rows)
    return [batch_of(events[at : at + rows]) for at in range(0, len(events), rows)]


def _text(encoded: Sequence[bytes]) -> pa.Array:
    return pa.array(encoded, pa.binary()).cast(pa.string())
