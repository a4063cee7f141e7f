"""The messages between a remote log and its server, for the calls of the port. See design 0101.

Messages are msgpack arrays: a field added later goes last, and has a default.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
import pyarrow as pa

from strandline.log.draft import Draft
from strandline.log.history import Body, EventBody
from strandline.log.identities import Original
from strandline.log.store import AppendRequest, Placement
from strandline.log.stored_records import StoredRecord
from strandline.values import REQUEST_RECORDS_MAX, Marks, Offset, Tenant

MSGPACK: Final = "application/vnd.msgpack"
PAGE_RECORDS: Final = 4096
PAGE_BYTES: Final = 4 * 1024 * 1024
LEASE_S: Final = 10.0
"""How long a claim lasts if its client does not renew it."""


_Few = msgspec.Meta(max_length=REQUEST_RECORDS_MAX)


class Message(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """One message."""


class WireTopic(Message):
    """A topic, in the form in which stores keep it."""

    topic: bytes
    settings: bytes
    created_at_us: int


class WireBody(Message):
    """The parts of a record's value; for bytes and batches, only `payload`."""

    payload: bytes
    kind: str | None = None
    headers: bytes = b"{}"
    occurred_at_us: int | None = None


class WireDraft(Message):
    """A value to append."""

    key: str | None
    body: WireBody


class WireAppend(Message):
    """One request of an append."""

    drafts: Annotated[list[WireDraft], _Few]
    level: int
    tenant: str | None = None
    producer: str | None = None
    sequences: list[int] = []
    idempotency_key: str | None = None
    expected_offset: int | None = None
    timeout_s: float | None = None


class AppendCall(Message):
    """Appends to one partition, in the order given."""

    topic_id: UUID
    partition: int
    appends: Annotated[list[WireAppend], _Few]


class WireOutcome(Message):
    """A placement, or the problem document of the error raised instead."""

    offset: int = 0
    timestamp_us: int = 0
    originals: list[tuple[int, int]] = []
    level: int = 0
    problem: bytes | None = None


class AppendReturn(Message):
    """The outcome of each append, in order."""

    outcomes: list[WireOutcome]


class WireRecord(Message):
    """A stored record."""

    offset: int
    timestamp_us: int
    key: str | None
    tenant: str | None
    body: WireBody
    size_bytes: int
    value: bytes | None = None


class WireMarks(Message):
    """The marks of a partition."""

    low: int
    high: int
    durable: int

    def marks(self) -> Marks:
        """Return the marks."""
        return Marks(Offset(self.low), Offset(self.high), Offset(self.durable))


class WireStore(Message):
    """The identity and capabilities of a store."""

    id: UUID
    url: str
    durability_max: int
    durability_reason: str
    has_segments: bool
    stores_columns: bool
    trims_at_once: bool
    scopes: list[str]
    body_bytes_max: int
    tenant: str | None = None
    has_schemas: bool = False


class FindCall(Message):
    """Finds a topic by its name, or by its id."""

    tenant: str | None = None
    name: str | None = None
    topic_id: UUID | None = None


class FoundTopics(Message):
    """The topics that were found."""

    topics: list[WireTopic]


class CreateCall(Message):
    """Creates a topic."""

    name: str
    tenant: str | None
    settings: bytes


class ChangeCall(Message):
    """Replaces the settings of a topic if they are as expected; returns the current ones."""

    topic_id: UUID
    expected: bytes
    settings: bytes


class TopicCall(Message):
    """A call about a topic."""

    topic_id: UUID


class PartitionCall(Message):
    """A call about a partition; `offset` is where to trim to, or what to evict before."""

    topic_id: UUID
    partition: int
    offset: int = 0


class WireState(Message):
    """A partition at one moment."""

    marks: WireMarks
    oldest: int
    #: Number, id and start, oldest first.
    epochs: list[tuple[int, UUID, int]]


class ReadCall(Message):
    """Reads a page."""

    topic_id: UUID
    partition: int
    start: int
    end: int | None = None
    records_max: int | None = None
    bytes_max: int | None = None
    durable_only: bool = False


class ReadReturn(Message):
    """A page, and where the whole read ends."""

    records: list[WireRecord]
    stop: int


class WirePredicate(Message):
    """A predicate. See PredicateText."""

    where: str
    now_us: int
    declared: bytes | None = None


class SelectCall(Message):
    """Reads the records selected by any of some predicates."""

    topic_id: UUID
    partition: int
    start: int
    records_max: int
    bytes_max: int
    durable_only: bool
    predicates: list[WirePredicate]


class SelectReturn(Message):
    """The selected records, and up to which offset."""

    records: list[WireRecord]
    end: int


class ScanCall(Message):
    """Reads columns of the rows that a scan selects. See ScanText."""

    topic_id: UUID
    partition: int
    start: int
    end: int
    columns: bytes
    tenant: str | None = None
    predicate: WirePredicate | None = None
    offered: bytes | None = None


class ScanReturn(Message):
    """Rows as an Arrow IPC stream, and up to which offset."""

    rows: bytes
    end: int


class RangesCall(Message):
    """A call about ranges of partitions: number, start and end."""

    topic_id: UUID
    ranges: list[tuple[int, int, int]]


class SchemaReturn(Message):
    """Columns, as Arrow serializes a schema."""

    columns: bytes


class SchemasReturn(Message):
    """The later versions of schemas, by the id of the topic. See SchemaStore."""

    versions: dict[UUID, list[bytes]]


class AddSchemaCall(Message):
    """Adds a version of a schema, while the caller sees this many in all."""

    topic_id: UUID
    schema: bytes
    expected: int


class WirePiece(Message):
    """A piece of history: records, a run that cannot be read, or a finding."""

    records: list[WireRecord] = []
    value: bytes | None = None
    #: First offset, end and reason.
    damage: tuple[int, int, str] | None = None
    finding: tuple[int, str] | None = None


class HistoryReturn(Message):
    """A part of history; `next` is the start of the following part, None for the last."""

    low: int
    high: int
    anchor: bytes | None
    is_proved: bool
    pieces: list[WirePiece]
    next: int | None


class WireSegment(Message):
    """A run of records stored together."""

    start: int
    end: int
    size_bytes: int
    first_timestamp_us: int
    last_timestamp_us: int
    is_sealed: bool


class Segments(Message):
    """Segments, in order."""

    segments: list[WireSegment]


class TrimReturn(Message):
    """The result of a trim."""

    marks: WireMarks
    is_released: bool


class NumberReturn(Message):
    """A number."""

    number: int


class KeyCall(Message):
    """A call about a key of a topic; `value` is set if the current one is `expected`."""

    topic_id: UUID
    key: str
    value: bytes | None = None
    expected: bytes | None = None


class KeysReturn(Message):
    """Keys with their values."""

    keys: dict[str, bytes]


class DoneReturn(Message):
    """Whether it was done."""

    is_done: bool = True


class ClaimCall(Message):
    """Claims a consumer's partition, under an id that the client chooses."""

    lease: str
    topic_id: UUID
    tenant: str | None
    consumer: str
    partition: int


class LeasesCall(Message):
    """Renews or releases the claims with these ids."""

    leases: list[str]


class LeasesReturn(Message):
    """The unknown ids."""

    unknown: list[str]


class WatchCall(Message):
    """Waits until a partition grows beyond the end that was seen."""

    #: Topic, partition and end.
    seen: list[tuple[UUID, int, int]]
    durable_only: bool
    wait_s: float


class WatchReturn(Message):
    """The ends of the partitions that have grown; -1 for one that is gone."""

    ends: list[tuple[UUID, int, int]]


def wire_marks(marks: Marks) -> WireMarks:
    """Encode marks."""
    return WireMarks(marks.low, marks.high, marks.durable)


def wire_body(body: Body) -> WireBody:
    """Encode a stored body."""
    if isinstance(body, EventBody):
        return WireBody(body.payload_json, body.kind, body.headers_json, body.occurred_at_us)
    return WireBody(body if isinstance(body, bytes) else memoryview(body).tobytes())


def body_of(wire: WireBody, *, is_batch: bool) -> Body:
    """Decode a stored body."""
    if wire.kind is not None:
        return EventBody(wire.kind, wire.payload, wire.headers, wire.occurred_at_us)
    return pa.py_buffer(wire.payload) if is_batch else wire.payload


def wire_append(request: AppendRequest, level: int, timeout_s: float | None) -> WireAppend:
    """Encode a request."""
    return WireAppend(
        [WireDraft(each.key, wire_body(each.body)) for each in request.drafts],
        level,
        request.tenant,
        request.producer,
        list(request.sequences),
        request.idempotency_key,
        request.expected_offset,
        timeout_s,
    )


def request_of(wire: WireAppend, drafts: Sequence[Draft]) -> AppendRequest:
    """Decode a request, given its drafts, which were checked."""
    return AppendRequest(
        drafts,
        None if wire.tenant is None else Tenant(wire.tenant),
        wire.producer,
        wire.sequences,
        wire.idempotency_key,
        wire.expected_offset,
    )


def placement_of(wire: WireOutcome) -> Placement:
    """Decode a placement."""
    originals = [Original(Offset(offset), stamp) for offset, stamp in wire.originals]
    return Placement(wire.offset, wire.timestamp_us, originals)


def stored_record(wire: WireRecord, *, is_batch: bool) -> StoredRecord:
    """Decode a record."""
    return StoredRecord(
        Offset(wire.offset),
        wire.timestamp_us,
        wire.key,
        None if wire.tenant is None else Tenant(wire.tenant),
        body_of(wire.body, is_batch=is_batch),
        wire.size_bytes,
        wire.value,
    )


encode: Final = msgspec.msgpack.Encoder().encode


def decode(kind: Any, body: bytes) -> Any:
    """Decode a message of this kind."""
    return msgspec.msgpack.decode(body, type=kind)
