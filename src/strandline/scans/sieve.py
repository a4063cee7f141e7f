"""Selects the rows of a read: those of a tenant, and those that match a predicate."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from strandline.clock import SystemClock
from strandline.predicates import Predicate, event_columns, parse_predicate
from strandline.scans.header_maps import header_maps
from strandline.values import InvalidError, TopicSettings, ValueKind
from strandline.values.row_selection import filtered

STORED_AS = {"key": "_key", "timestamp": "_timestamp"}
"""The log's names of the columns of predicates on events."""


@dataclass(frozen=True, slots=True)
class Sieve:
    """Selects rows of the log's record batches."""

    kind: ValueKind
    tenant: str | None = None
    predicate: Predicate | None = None
    #: The columns that the predicate was parsed for.
    read: tuple[str, ...] = ()

    def sifted(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        """Return the selected rows, in order."""
        if self.tenant is not None:
            owners = raw.column("_tenant")
            own = pc.fill_null(pc.equal(owners, self.tenant), False)
            raw = filtered(raw, pc.or_(pc.is_null(owners), own))
        if self.predicate is None or not raw.num_rows:
            return raw
        columns = [self._offered(raw, name) for name in self.read]
        offered = pa.RecordBatch.from_arrays(columns, names=list(self.read))
        return filtered(raw, self.predicate.matches(offered))

    def stored_names(self) -> set[str]:
        """Return the log's columns that it uses."""
        own = set() if self.tenant is None else {"_tenant"}
        return own if self.predicate is None else {*own, *map(self.stored_as, self.read)}

    def stored_as(self, name: str) -> str:
        """Return the log's name of a column of the predicate."""
        return name if self.kind is ValueKind.BATCH else STORED_AS.get(name, name)

    def _offered(self, raw: pa.RecordBatch, name: str) -> pa.Array:
        if self.kind is ValueKind.BATCH:
            return raw.column(name)
        if name == "headers":
            return header_maps(raw.column("headers"))
        if name == "payload":
            texts = raw.column("payload").cast(pa.string())
            return pa.ExtensionArray.from_storage(pa.json_(), texts)
        return raw.column(self.stored_as(name))


def predicate_columns(settings: TopicSettings, values: pa.Schema | None) -> pa.Schema:
    """Return the columns of `log.subscribe(where=…)` for a topic with these settings.

    For a batch topic `values`; for events kind, key, payload, headers, occurred_at and
    timestamp, the time of append; for plain bytes none.
    """
    if settings.value_kind is ValueKind.EVENT:
        return event_columns(settings.payload_schema)
    return pa.schema([]) if values is None else values


def sieve(kind: ValueKind, tenant: str | None, predicate: str | None, offered: pa.Schema) -> Sieve:
    """Return the sieve for a kind of topic; PredicateError if the text is not valid.

    `offered` are the columns that the predicate may read.
    """
    if predicate is None:
        return Sieve(kind, tenant)
    if not offered.names:
        raise InvalidError("records of plain bytes have no columns, read them without a predicate")
    # Parsed again for only the columns that it reads, so that no others are decoded.
    now_us = SystemClock().now_us()
    read = parse_predicate(predicate, offered, now_us=now_us).columns or (offered.names[0],)
    narrow = pa.schema([offered.field(name) for name in read])
    return Sieve(kind, tenant, parse_predicate(predicate, narrow, now_us=now_us), tuple(read))
