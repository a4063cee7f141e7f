"""The schema of the reference tests, rows of it, and what readers have seen."""

from collections.abc import Iterable

import pyarrow as pa

import strandline as sl

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
    ]
)

PATIENCE_S = 20.0
"""How long a test waits for what must happen; only a failure takes as long."""

Seen = sl.DeliveredBatch | sl.Record


def rows(*ids: int, kind: str = "X", value: float | None = 1.5) -> pa.RecordBatch:
    """Return a batch with these ids."""
    found = [{"id": number, "kind": kind, "value": value} for number in ids]
    return pa.RecordBatch.from_pylist(found, schema=SCHEMA)


def offsets(delivered: Iterable[Seen]) -> list[int]:
    """Return where these were."""
    return [each.offset for each in delivered]


def ids(delivered: Iterable[Seen]) -> list[int]:
    """Return the ids of all rows."""
    return [number for each in batches(delivered) for number in each.column("id").to_pylist()]


def batches(delivered: Iterable[Seen]) -> list[pa.RecordBatch]:
    """Return what batches these hold."""
    found = []
    for each in delivered:
        assert isinstance(each, sl.DeliveredBatch)
        found.append(each.batch)
    return found


def take(subscription: sl.ScopedSubscription[Seen], count: int) -> list[Seen]:
    """Return the next so many deliveries."""
    taken = [subscription.next(PATIENCE_S) for _ in range(count)]
    assert None not in taken, f"only {len([each for each in taken if each])} of {count} came"
    return [each for each in taken if each is not None]


def drain(subscription: sl.ScopedSubscription[Seen]) -> list[Seen]:
    """Return what is there already."""
    return list(iter(lambda: subscription.next(0.0), None))
