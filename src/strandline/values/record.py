"""One record of a partition."""

from typing import TYPE_CHECKING

from strandline._core import IS_COMPILED
from strandline.values.payloads import record_payload_as

if TYPE_CHECKING:
    import pyarrow as pa

    from strandline.values.event import Event

if TYPE_CHECKING or not IS_COMPILED:
    from strandline.values._plain_record import Record
else:
    from strandline._core.core import Record

    # Python handles uncommon cases.
    Record.payload_as = record_payload_as

__all__ = ["Record", "with_value"]


def with_value(record: Record, value: "Event | bytes | pa.RecordBatch") -> Record:
    """Return the record with another value."""
    return Record(
        *(record.topic, record.partition, record.offset, record.timestamp_us),
        *(record.key, record.tenant, value),
    )
