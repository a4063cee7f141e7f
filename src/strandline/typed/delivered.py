"""What a scope hands out, and how a record becomes that."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import msgspec
import pyarrow as pa

from strandline.typed.catalogue import Catalogue
from strandline.typed.definition import TopicDefinition
from strandline.typed.errors import SchemaMismatchError
from strandline.typed.schemas import conformed, differences
from strandline.values import Offset, Partition, Record, Tenant


@dataclass(frozen=True, slots=True)
class DeliveredBatch:
    """The rows of one record of a topic of batches that a reader sees."""

    record: Record
    """The record; its value is `batch`."""
    rows: pa.Array
    """The number of each row in the record: with the offset, a row's name for ever."""

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows."""
        return self.record.value

    @property
    def partition(self) -> Partition:
        """Where the record is."""
        return self.record.partition

    @property
    def offset(self) -> Offset:
        """Where in the partition."""
        return self.record.offset

    @property
    def timestamp(self) -> datetime:
        """Append time, in UTC."""
        return self.record.timestamp

    @property
    def tenant(self) -> Tenant | None:
        """Whose the rows are; None for nobody's, which everybody sees."""
        return self.record.tenant


Delivered: TypeAlias = DeliveredBatch | Record
"""Batches of a topic of batches; events and bytes come as the records that they are."""


class Sight:
    """What one reader sees of one topic: its tenant's rows and nobody's, that match.

    In this order: whose the record is, then the version of the schema that is read, then
    the predicate. So a predicate never meets a row of another tenant's.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        definition: TopicDefinition,
        tenant: Tenant | None,
        version: int | None,
    ) -> None:
        self._catalogue = catalogue
        self._definition = definition
        self._tenant = tenant
        self._version = version
        self._is_typed = definition.is_typed or version is not None
        if self._is_typed:
            self._schema = definition.version_at(version)

    def of(self, record: Record) -> Delivered | None:
        """Return what the reader sees of the record; None for nothing."""
        if record.tenant is not None and record.tenant != self._tenant:
            return None
        batch = record.value
        if not isinstance(batch, pa.RecordBatch):
            return record
        if self._is_typed and not batch.schema.equals(self._schema):
            batch = self._conformed(batch, record.offset)
            record = msgspec.structs.replace(record, value=batch)
        return DeliveredBatch(record, pa.arange(0, batch.num_rows))

    def _conformed(self, batch: pa.RecordBatch, offset: int) -> pa.RecordBatch:
        number = self._definition.version_of(batch.schema)
        if number is None:
            # A version that was added while this reader went on: the newest moves with it.
            self._definition = self._catalogue.renewed(self._definition)
            self._schema = self._definition.version_at(self._version)
            if self._definition.version_of(batch.schema) is None:
                raise SchemaMismatchError(
                    "this record was appended past the topic's schema, read on behind it",
                    differences(batch.schema, self._definition.schema),
                    topic=self._definition.name,
                    offset=offset,
                )
        return conformed(batch, self._schema)
