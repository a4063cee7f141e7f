"""What a scope returns for a record."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import pyarrow as pa

from strandline.predicates import Predicate, parse_predicate
from strandline.subscriptions.screening import EventScreen
from strandline.typed.catalogue import Catalogue
from strandline.typed.definition import TopicDefinition
from strandline.typed.errors import SchemaMismatchError
from strandline.typed.schemas import conformed, differences
from strandline.values import InvalidError, Offset, Partition, Record, Tenant, ValueKind
from strandline.values.names import check_text
from strandline.values.prompt import prompt_text
from strandline.values.record import with_value
from strandline.values.row_selection import filtered


@dataclass(frozen=True, slots=True)
class DeliveredBatch:
    """The visible rows of one record, in a topic of batches."""

    record: Record
    """The record; its value is `batch`."""
    rows: pa.Array
    """The number of each row in its record: together with the offset, a permanent row id."""

    def __repr__(self) -> str:
        return prompt_text("DeliveredBatch", self.record)

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows."""
        return self.record.value

    @property
    def partition(self) -> Partition:
        """The record's partition."""
        return self.record.partition

    @property
    def offset(self) -> Offset:
        """The record's offset."""
        return self.record.offset

    @property
    def timestamp(self) -> datetime:
        """Append time, in UTC."""
        return self.record.timestamp

    @property
    def tenant(self) -> Tenant | None:
        """The rows' tenant; None for global rows, which all tenants see."""
        return self.record.tenant


Delivered: TypeAlias = DeliveredBatch | Record
"""Visible rows for a topic of batches; unchanged records for events and bytes."""


class VisibleRows:
    """Selects what one reader sees of one topic: matching rows, its tenant's and global ones.

    Checks in this order: the record's tenant, the version of the schema, the predicate. So a
    predicate is never evaluated on another tenant's rows.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        definition: TopicDefinition,
        tenant: Tenant | None,
        *,
        where: str,
        version: int | None,
        now_us: int,
    ) -> None:
        self._catalogue = catalogue
        self._definition = definition
        self._tenant = tenant
        self._where = where = check_text(where, "predicate")
        self._version = version
        self._now_us = now_us
        self._schema = _read_as(definition, where, version)
        self._predicate = self._parsed()
        self._events = None
        if self._schema is None and where.strip():
            self._events = EventScreen(where, now_us, definition.payload_schema)

    def of(self, record: Record) -> Delivered | None:
        """Return the visible part of the record; None if nothing is visible."""
        if record.tenant is not None and record.tenant != self._tenant:
            return None
        value = record.value
        if isinstance(value, pa.RecordBatch):
            return self._rows_of(record, value)
        return record if self._events is None else self._event(record, self._events)

    def _rows_of(self, record: Record, value: pa.RecordBatch) -> DeliveredBatch | None:
        batch = value
        if self._schema is not None and not batch.schema.equals(self._schema):
            batch = self._conformed(batch, record.offset)
        rows = pa.arange(0, batch.num_rows)
        if self._predicate is not None:
            matching = self._predicate.matches(batch)
            batch, rows = filtered(batch, matching), rows.filter(matching)
            if not batch.num_rows:
                return None
        if batch is not value:
            record = with_value(record, batch)
        return DeliveredBatch(record, rows)

    def _event(self, record: Record, events: EventScreen) -> Record | None:
        [outcome] = events.sift([record])
        if isinstance(outcome, InvalidError):
            raise outcome
        return outcome

    def _conformed(self, batch: pa.RecordBatch, offset: int) -> pa.RecordBatch:
        if self._definition.version_of(batch.schema) is None:
            # A version was added while this reader was running: move to the newest.
            self._definition = self._catalogue.renewed(self._definition)
            self._schema = self._definition.version_at(self._version)
            self._predicate = self._parsed()
            if self._definition.version_of(batch.schema) is None:
                raise SchemaMismatchError(
                    "this record was appended without the topic's schema, continue after it",
                    differences(batch.schema, self._definition.schema),
                    topic=self._definition.name,
                    offset=offset,
                )
        return conformed(batch, self._schema)

    def _parsed(self) -> Predicate | None:
        if self._schema is None or not self._where.strip():
            return None
        return parse_predicate(self._where, self._schema, now_us=self._now_us)


def _read_as(definition: TopicDefinition, where: str, version: int | None) -> pa.Schema | None:
    """Return the schema with which batches are read; None for a topic without one."""
    if definition.is_typed or version is not None:
        return definition.version_at(version)
    if where.strip() and definition.value_kind is not ValueKind.EVENT:
        raise InvalidError("a predicate needs a topic with a schema", topic=definition.name)
    return None
