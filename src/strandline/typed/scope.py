"""A log as one tenant may see it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Unpack, overload
from uuid import UUID
from weakref import WeakKeyDictionary

import pyarrow as pa

from strandline.clock import Clock, SystemClock
from strandline.log import Log, Receipt, Receipts, Value, parts_of
from strandline.log.terms import WriteTerms
from strandline.subscriptions import Marker
from strandline.subscriptions.start import Starts
from strandline.subscriptions.subscribing import subscribe
from strandline.typed.catalogue import AnyTopic, Catalogue
from strandline.typed.definition import TopicDefinition
from strandline.typed.delivered import Delivered, VisibleRows
from strandline.typed.errors import SchemaMismatchError, TenantMismatchError
from strandline.typed.readers import ConsumerProgress, Reader, Readers
from strandline.typed.replaying import replayed, spans_of
from strandline.typed.schemas import decoded_schema, differences, with_schema
from strandline.typed.subscription import ScopedSubscription
from strandline.typed.versions import SchemaVersions
from strandline.values import (
    EARLIEST,
    InvalidError,
    Tenant,
    Topic,
    check_consumer_name,
    parse_tenant,
)
from strandline.values.arguments import check_items
from strandline.values.batches import check_structure
from strandline.values.prompt import prompt_text


class PublishTerms(WriteTerms, total=False):
    """Options of the log's `append`, without the tenant."""

    timeout_s: float | None
    deliver_at: datetime | None


class _Shared(NamedTuple):
    """What all scopes of one log object share."""

    versions: SchemaVersions
    readers: Readers


_shared: WeakKeyDictionary[Log, _Shared] = WeakKeyDictionary()


def scope_of(log: Log, tenant: str | None = None) -> Scope:
    """Return the log as this tenant may see it; without one, the global scope."""
    versions, readers = _shared.setdefault(log, _Shared(SchemaVersions(), Readers()))
    return Scope(log, tenant, versions=versions, readers=readers, clock=parts_of(log).clock)


class Scope:
    """Everything that one tenant may do with a log and see of it.

    The tenant cannot be changed. A tenant sees its own topics and the global ones; if both have
    the same name, its own. Of a global topic's records it sees its own and those without a
    tenant. It never sees another tenant's names, counts, errors, consumers or producers; in a
    topic that tenants share, positions, lag and timing are visible. See design 0041.

    A topic is given by its name or by its definition. InvalidError for an unknown one, and, with
    the same message, for another tenant's.
    """

    def __init__(
        self,
        log: Log,
        tenant: str | None,
        *,
        versions: SchemaVersions,
        readers: Readers,
        clock: Clock | None = None,
    ) -> None:
        self._log = log
        self._tenant = parse_tenant(tenant)
        self._catalogue = Catalogue(log, self._tenant, versions)
        self._readers = readers
        self._clock = clock or SystemClock()

    @property
    def tenant(self) -> Tenant | None:
        """The scope's tenant; None for the global scope."""
        return self._tenant

    def __repr__(self) -> str:
        return prompt_text("Scope", self._log, tenant=self._tenant)

    # --- topics ---

    def register(
        self,
        name: str,
        schema: pa.Schema,
        *,
        metadata: Mapping[str, str] | None = None,
        partitions: int = 1,
    ) -> TopicDefinition:
        """Create a topic of batches with this schema, pinned to the tenant; global without one.

        Atomic and durable. If the topic exists with the same metadata and partitions, and
        `schema` is one of its versions, return it; otherwise SchemaConflictError, with the
        differences. `retention_seconds` in the metadata is the topic's retention by age.
        UnsupportedTypeError for a column that is not allowed, see `checked_schema`.
        """
        return self._catalogue.register(name, schema, metadata, partitions)

    def topic(self, name: AnyTopic) -> TopicDefinition:
        """Return a topic that the tenant sees, looked up again."""
        return self._catalogue.look_up(name)

    def topics(self) -> Sequence[TopicDefinition]:
        """Return the tenant's own topics and the global ones, in the order of creation.

        Omits topics whose stored schema cannot be read: `topic` raises CorruptError for them.
        """
        return self._catalogue.list()

    def drop(self, topic: AnyTopic | UUID) -> None:
        """Remove a topic with everything in it, given by its name, definition or id.

        Only the tenant's own; in the global scope, a global one. InvalidError otherwise.
        """
        self._catalogue.drop(topic)

    def evolve(self, name: AnyTopic, schema: pa.Schema) -> TopicDefinition:
        """Add a version to the topic's schema; durable when this returns.

        It must have the columns of the newest version, each with the same type or a wider
        number type, followed only by nullable columns. Adding an existing version is no error;
        anything else is SchemaConflictError, with the differences.
        """
        return self._catalogue.evolve(name, schema)

    # --- writing ---

    def publish(
        self,
        name: AnyTopic,
        value: Value,
        *,
        key: str | None = None,
        **terms: Unpack[PublishTerms],
    ) -> Receipt:
        """Append one record of the tenant's, and return as `append` does.

        A batch for a typed topic must have exactly the names, types and nullability of one of
        its versions, otherwise SchemaMismatchError has the differences; dictionaries are
        decoded. It must have at least one row. TenantMismatchError for a definition of another
        tenant's topic. If this raises, nothing is stored.
        """
        topic, ready, tenant = self._ready(name, value)
        if tenant is None:
            return self._log.append(topic, ready, key=key, **terms)
        return self._log.append(topic, ready, key=key, tenant=tenant, **terms)

    def publish_many(
        self,
        name: AnyTopic,
        values: Iterable[Value],
        *,
        keys: Sequence[str | None] | None = None,
        **terms: Unpack[PublishTerms],
    ) -> Receipts:
        """Append each value as a separate record, as `append_many` does, checked as by `publish`.

        All values are checked before the first is stored. No values: no receipts.
        """
        each = [self._ready(name, value)[1] for value in check_items("values", values)]
        known = self._catalogue.find(name)
        whose = None if known.tenant is not None else self._tenant
        return self._log.append_many(known.topic, each, keys=keys, tenant=whose, **terms)

    # --- reading ---

    @overload
    def subscribe(
        self,
        name: AnyTopic,
        *,
        where: str = ...,
        start: Starts = ...,
        consumer: str | None = ...,
        version: int | None = ...,
        markers: Literal[False] = ...,
        durable_only: bool = ...,
        read_ahead: int | None = ...,
    ) -> ScopedSubscription[Delivered]: ...

    @overload
    def subscribe(
        self,
        name: AnyTopic,
        *,
        where: str = ...,
        start: Starts = ...,
        consumer: str | None = ...,
        version: int | None = ...,
        markers: Literal[True],
        durable_only: bool = ...,
        read_ahead: int | None = ...,
    ) -> ScopedSubscription[Delivered | Marker]: ...

    def subscribe(
        self,
        name: AnyTopic,
        *,
        where: str = "",
        start: Starts = EARLIEST,
        consumer: str | None = None,
        version: int | None = None,
        markers: bool = False,
        durable_only: bool = False,
        read_ahead: int | None = None,
    ) -> ScopedSubscription[Any]:
        """Read what the tenant sees of a topic from `start` on, and follow it as it grows.

        Of a batch, only rows that match the predicate `where` are returned, and nothing if none
        does; it is parsed for the current schema, and topics of events offer EVENT_COLUMNS.
        With `consumer`, a partition starts at the cursor of that consumer of the tenant, and at
        `start` if it has none there, and the subscription can `ack`: the consumer exists in the
        log, and holds back retention, from its first ack on, or from `log.register`. Batches
        are returned in the newest version of the schema, or in `version`, counted from 1. All
        else is as in `Log.subscribe`.
        """
        known = self._catalogue.look_up(name)
        visible = self._visible(known, where, version)
        reader = None
        if consumer is not None:
            reader = Reader(known.topic, self._tenant, check_consumer_name(consumer))
        inner = subscribe(
            self._log,
            known.topic,
            start=start,
            consumer=consumer,
            tenant=self._tenant,
            markers=markers,
            durable_only=durable_only,
            read_ahead=read_ahead,
            clock=self._clock,
        )
        if reader is not None:
            assignment = inner.assignment
            reader.starts = {each: assignment.position(each) for each in assignment.assigned()}
            self._readers.add(reader)
        return ScopedSubscription(
            *(self._log, known.topic, inner, visible),
            clock=self._clock,
            reader=reader,
            readers=self._readers,
        )

    def replay(
        self,
        name: AnyTopic,
        start: Starts = EARLIEST,
        *,
        where: str = "",
        version: int | None = None,
    ) -> Iterator[Delivered]:
        """Yield what the tenant sees of the current records from `start` on.

        Does not wait for later records. Reads a page at a time, one partition after
        another.
        `where` and `version` as for `subscribe`.
        """
        known = self._catalogue.look_up(name)
        visible = self._visible(known, where, version)
        return replayed(self._log, known, spans_of(self._log, known, start), visible)

    def consumers(self, name: AnyTopic) -> Sequence[ConsumerProgress]:
        """Return the progress of the tenant's consumers of a topic.

        Those with a cursor, and those with a live subscription of this log object.
        """
        known = self._catalogue.look_up(name)
        return self._readers.progress(self._log, known.topic, self._tenant)

    def _ready(self, name: AnyTopic, value: Value) -> tuple[Topic, Value, Tenant | None]:
        """Return the topic, the value and the tenant for an append."""
        if isinstance(name, Topic | TopicDefinition) and name.tenant not in (None, self._tenant):
            # Known from the argument alone; nothing was looked up.
            raise TenantMismatchError(name.name, name.tenant, self._tenant)
        known = self._catalogue.find(name)
        ready = self._checked(known, value) if known.is_typed else value
        # In a tenant's own topic a record is the tenant's anyway, and omitting it is cheapest.
        return known.topic, ready, None if known.tenant is not None else self._tenant

    def _visible(self, known: TopicDefinition, where: str, version: int | None) -> VisibleRows:
        now_us = self._clock.now_us()
        return VisibleRows(
            self._catalogue, known, self._tenant, where=where, version=version, now_us=now_us
        )

    def _checked(self, known: TopicDefinition, value: Value) -> Value:
        if not isinstance(value, pa.RecordBatch):
            return value  # The log checks the kind of the value.
        check_structure(value)
        version = _version_for(known, value.schema)
        if version is None:
            known = self._catalogue.renewed(known)
            version = _version_for(known, value.schema)
        if version is None:
            raise SchemaMismatchError(
                "this batch has another schema than the topic",
                differences(decoded_schema(value.schema), known.schema),
                topic=known.name,
            )
        if value.num_rows == 0:
            raise InvalidError("a batch has at least one row", topic=known.name)
        checked: Value = with_schema(value, version)
        return checked


def _version_for(known: TopicDefinition, schema: pa.Schema) -> pa.Schema | None:
    number = known.version_of(schema) or known.version_of(decoded_schema(schema))
    return None if number is None else known.versions[number - 1]
