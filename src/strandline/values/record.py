"""What one append put into a partition."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from strandline.values._instants import datetime_from_us
from strandline.values.errors import InvalidError
from strandline.values.event import Event
from strandline.values.prompt import Shown, few, prompt_text, shortened
from strandline.values.tenant import Tenant
from strandline.values.topic import Offset, Partition

if TYPE_CHECKING:
    import pyarrow as pa


# No record can be part of a cycle, so the collector need not visit a million of them.
class Record(msgspec.Struct, frozen=True, gc=False):
    """One offset of one partition, with its value.

    Built in bulk by a log, from parts that were checked when they were appended,
    and so not checked again.
    """

    topic: str
    partition: Partition
    offset: Offset
    timestamp_us: int
    """Append time in microseconds since the epoch; never goes back within a partition."""
    key: str | None
    tenant: Tenant | None
    value: "Event | bytes | pa.RecordBatch"

    def __repr__(self) -> str:
        value = self.value
        is_batch = not isinstance(value, Event | bytes)
        return prompt_text(
            "Record",
            topic=self.topic,
            partition=self.partition,
            offset=self.offset,
            timestamp=Shown(self.timestamp.isoformat()),
            key=self.key,
            tenant=self.tenant,
            value=_shown_batch(value) if is_batch else shortened(value),
        )

    @property
    def timestamp(self) -> datetime:
        """Append time, in UTC."""
        return datetime_from_us(self.timestamp_us)

    @property
    def event(self) -> Event:
        """The value of a record in an event topic; InvalidError in any other."""
        value = self.value
        if isinstance(value, Event):
            return value
        raise InvalidError(
            "this record holds no event, use .value",
            topic=self.topic,
            type=type(value).__name__,
        )

    @property
    def kind(self) -> str:
        """The kind of the event."""
        return self.event.kind

    @property
    def payload(self) -> Any:
        """The decoded payload of the event."""
        value = self.value
        return value.payload if type(value) is Event else self.event.payload

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the event."""
        return self.event.headers


def _shown_batch(batch: "pa.RecordBatch") -> Shown:
    columns = few(batch.schema.names)
    return Shown(prompt_text("RecordBatch", rows=batch.num_rows, columns=columns))
