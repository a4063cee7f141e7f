"""Records in plain Python, used without the compiled core."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from strandline.values._event_rules import raise_no_event, record_text
from strandline.values.event import Event
from strandline.values.instants import datetime_from_us
from strandline.values.payloads import record_payload_as
from strandline.values.tenant import Tenant
from strandline.values.topic import Offset, Partition

if TYPE_CHECKING:
    import pyarrow as pa


T = TypeVar("T")


# No record can be part of a cycle, so the garbage collector need not visit them.
class Record(msgspec.Struct, frozen=True, gc=False):
    """One offset of one partition, with its value.

    Built in bulk by a log, from parts that were checked when they were appended,
    and so not checked again.
    """

    # Pickled by a name that is the same with and without the core.
    __module__ = "strandline.values.record"

    topic: str
    partition: Partition
    offset: Offset
    timestamp_us: int
    """Append time in microseconds since the epoch; never goes back within a partition."""
    key: str | None
    tenant: Tenant | None
    value: "Event | bytes | pa.RecordBatch"

    def __repr__(self) -> str:
        return record_text(self)

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
        return raise_no_event(self)

    @property
    def kind(self) -> str:
        """The kind of the event."""
        return self.event.kind

    @property
    def payload(self) -> Any:
        """The decoded payload of the event."""
        value = self.value
        return value.payload if type(value) is Event else self.event.payload

    def payload_as(self, wanted: type[T]) -> T:
        """Return the payload of the event as a value of this type.

        Decoded by msgspec: a dataclass, a msgspec Struct, a TypedDict or any other type that
        it knows; or by pydantic, for a class of its models. InvalidError, with the reason
        and the record's place, if the payload is none.
        """
        return record_payload_as(self, wanted)

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the event."""
        return self.event.headers
