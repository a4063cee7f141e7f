"""The calls of the contract that take many arguments, gathered once for every backend."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from strandline.log.protocol import EventRows, TopicName, Value
from strandline.log.terms import Terms, check_new_name, terms_of
from strandline.values import (
    Durability,
    InvalidError,
    Tenant,
    Topic,
    TopicDescription,
    TopicSettings,
    ValueKind,
    parse_tenant,
    sorted_metadata,
)
from strandline.values.arguments import check_flag, check_items
from strandline.values.batches import check_schema, decode_schema

OneT = TypeVar("OneT")
ManyT = TypeVar("ManyT")


class Calls(ABC, Generic[OneT, ManyT]):
    """Implements these calls of Log; a backend does what is left of them."""

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        value_kind: ValueKind = ValueKind.EVENT,
        retention_age_s: int | None = None,
        retention_bytes: int | None = None,
        limit_bytes: int | None = None,
        tenant: str | None = None,
        internal: bool = False,
        proof: bool = False,
        schema: bytes | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Topic:
        settings = TopicSettings(
            partitions=partitions,
            value_kind=value_kind,
            retention_age_s=retention_age_s,
            retention_bytes=retention_bytes,
            limit_bytes=limit_bytes,
            proof=proof,
            schema=schema,
            metadata=sorted_metadata(metadata),
        )
        name = check_new_name(name, internal=check_flag("internal", internal))
        if schema is not None:
            check_schema(decode_schema(schema))
        return self._create_topic(name, parse_tenant(tenant), settings, internal=internal)

    @abstractmethod
    def _create_topic(
        self, name: str, tenant: Tenant | None, settings: TopicSettings, *, internal: bool
    ) -> Topic: ...

    def change_retention(
        self,
        topic: TopicName,
        *,
        retention_age_s: int | None,
        retention_bytes: int | None,
        limit_bytes: int | None = None,
    ) -> TopicDescription:
        return self._change_settings(
            topic,
            lambda settings: replace(
                settings,
                retention_age_s=retention_age_s,
                retention_bytes=retention_bytes,
                limit_bytes=limit_bytes,
            ),
        )

    @abstractmethod
    def _change_settings(
        self, topic: TopicName, changed: Callable[[TopicSettings], TopicSettings]
    ) -> TopicDescription: ...

    def append(
        self,
        topic: TopicName,
        value: Value,
        *,
        key: str | None = None,
        partition: int | None = None,
        tenant: str | None = None,
        durability: Durability | None = None,
        producer: str | None = None,
        sequence: int | None = None,
        idempotency_key: str | None = None,
        expected_offset: int | None = None,
        timeout_s: float | None = None,
    ) -> OneT:
        terms = terms_of(
            partition=partition,
            tenant=tenant,
            durability=durability,
            producer=producer,
            sequence=sequence,
            idempotency_key=idempotency_key,
            expected_offset=expected_offset,
            timeout_s=timeout_s,
        )
        return self._append(topic, value, key, terms)

    @abstractmethod
    def _append(self, topic: TopicName, value: Value, key: str | None, terms: Terms) -> OneT: ...

    def append_many(
        self,
        topic: TopicName,
        values: Iterable[Value],
        *,
        keys: Sequence[str | None] | None = None,
        partition: int | None = None,
        tenant: str | None = None,
        durability: Durability | None = None,
        producer: str | None = None,
        sequence: int | None = None,
        idempotency_key: str | None = None,
        expected_offset: int | None = None,
        timeout_s: float | None = None,
    ) -> ManyT:
        terms = terms_of(
            partition=partition,
            tenant=tenant,
            durability=durability,
            producer=producer,
            sequence=sequence,
            idempotency_key=idempotency_key,
            expected_offset=expected_offset,
            timeout_s=timeout_s,
        )
        each: Sequence[Value] = (
            values if isinstance(values, EventRows) else check_items("values", values)
        )
        own = None if keys is None else check_items("keys", keys)
        if own is not None and len(own) != len(each):
            raise InvalidError("there is one key for each value", keys=len(own), values=len(each))
        return self._append_many(topic, each, own, terms)

    @abstractmethod
    def _append_many(
        self,
        topic: TopicName,
        values: Sequence[Value],
        keys: Sequence[str | None] | None,
        terms: Terms,
    ) -> ManyT: ...
