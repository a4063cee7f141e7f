"""The topics that a tenant has, and those that it sees. Rules C9 to C11 of the specification."""

import contextlib
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias
from uuid import UUID

import pyarrow as pa

from strandline.log import Log, parts_of
from strandline.typed.definition import TopicDefinition, defined
from strandline.typed.errors import SchemaConflictError
from strandline.typed.schemas import checked_schema, differences, packed, unlike_evolution
from strandline.typed.versions import SchemaVersions
from strandline.values import (
    ConflictError,
    CorruptError,
    InvalidError,
    Mode,
    Tenant,
    Topic,
    ValueKind,
    check_topic_name,
    sorted_metadata,
)

RETENTION_KEY: Final = "retention_seconds"
"""The metadata key that sets the topic's retention by age."""

_NEAR_MAX: Final = 3
_DIGITS_MAX: Final = 18

AnyTopic: TypeAlias = str | Topic | TopicDefinition
"""How a caller names a topic in a scope: by a visible name, or by the topic itself."""


class Catalogue:
    """The topics of one tenant, if there is one, and the global topics."""

    def __init__(self, log: Log, tenant: Tenant | None, versions: SchemaVersions) -> None:
        self._log = log
        self._tenant = tenant
        self._versions = versions
        # What was registered never changes; only versions are added.
        self._first: dict[UUID, TopicDefinition] = {}

    def register(
        self, name: str, schema: pa.Schema, metadata: Mapping[str, str] | None, partitions: int
    ) -> TopicDefinition:
        """See Scope.register."""
        checked = checked_schema(schema)
        given = dict(sorted_metadata(metadata))
        self._check_own()
        try:
            topic = self._log.create_topic(
                name,
                partitions=partitions,
                value_kind=ValueKind.BATCH,
                retention_age_s=_retention_s(given),
                tenant=self._tenant,
                schema=packed(checked),
                metadata=given,
            )
        except ConflictError:
            known = self._fresh(self._log.topic(name, tenant=self._tenant))
            _check_same(known, checked, given, partitions)
            return known
        return self._fresh(topic)

    def find(self, name: AnyTopic) -> TopicDefinition:
        """Return a topic that the tenant sees, with the versions known so far.

        InvalidError if there is none; the message does not depend on other tenants' topics.
        """
        if isinstance(name, TopicDefinition):
            topic: Topic | None = name.topic
            if name.id not in self._first:
                self._first[name.id] = replace(name, versions=name.versions[:1])
        else:
            topic = name if isinstance(name, Topic) else self._seen(check_topic_name(name))
        if topic is None or not self._is_visible(topic):
            raise self._unknown(name)
        return self._known(topic)

    def look_up(self, name: AnyTopic) -> TopicDefinition:
        """Do what `find` does, with all current versions, for a topic that still exists."""
        found = self.find(name)
        try:
            self._log.topic(found.topic)
        except InvalidError:
            raise self._unknown(name) from None
        return self.renewed(found)

    def renewed(self, known: TopicDefinition) -> TopicDefinition:
        """Return the topic with versions that others have added."""
        if known.is_typed:
            self._versions.catch_up(self._log)
        return self._known(known.topic)

    def list(self) -> Sequence[TopicDefinition]:
        """See Scope.topics."""
        self._versions.catch_up(self._log)
        found = []
        for topic in self._visible():
            # An unreadable topic raises when it is looked up, and must not hide others.
            with contextlib.suppress(CorruptError):
                found.append(self._known(topic))
        return sorted(found, key=lambda each: (each.created_at_us, each.id))

    def drop(self, topic: AnyTopic | UUID) -> None:
        """See Scope.drop."""
        topic_id = topic if isinstance(topic, UUID) else self.look_up(topic).id
        for each in self._log.topics(tenant=self._tenant):
            if each.id == topic_id and each.tenant == self._tenant:
                self._log.drop_topic(each)
                return
        raise InvalidError("there is no such topic of this tenant's own", topic=str(topic_id))

    def evolve(self, name: AnyTopic, schema: pa.Schema) -> TopicDefinition:
        """See Scope.evolve."""
        checked = checked_schema(schema)
        if self._log.mode is not Mode.WRITE:
            raise InvalidError(
                "the log was opened in a mode that does not allow this, open it with mode='write'",
                mode=str(self._log.mode),
            )
        known = self.find(name)
        if known.tenant != self._tenant:
            raise InvalidError(
                "only the tenant that registered a topic can change its schema", topic=known.name
            )
        known.version_at(None)
        while True:
            end = self._versions.catch_up(self._log)
            known = self._known(known.topic)
            if known.version_of(checked) is not None:
                return known
            if wrong := unlike_evolution(checked, known.schema):
                raise SchemaConflictError(
                    "this schema does not follow from the topic's", wrong, topic=known.name
                )
            self._versions.add(self._log, known.topic, checked, end)

    def _seen(self, name: str) -> Topic | None:
        for tenant in (self._tenant, None) if self._tenant is not None else (None,):
            try:
                return self._log.topic(name, tenant=tenant)
            except InvalidError:
                continue
        return None

    def _visible(self) -> Sequence[Topic]:
        topics = list(self._log.topics())
        if self._tenant is not None:
            topics += self._log.topics(tenant=self._tenant)
        # On a remote log, a tenant's token has each name without a tenant mean that tenant's.
        return [each for each in dict.fromkeys(topics) if self._is_visible(each)]

    def _check_own(self) -> None:
        """Raise InvalidError where a topic without a tenant would be a tenant's own."""
        whose = parts_of(self._log).store.capabilities.tenant
        if whose is not None and self._tenant is None:
            raise InvalidError(
                "the token of this log is of a tenant, register in the scope of that tenant",
                tenant=whose,
            )

    def _is_visible(self, topic: Topic) -> bool:
        return topic.tenant is None or topic.tenant == self._tenant

    def _fresh(self, topic: Topic) -> TopicDefinition:
        self._versions.catch_up(self._log)
        return self._known(topic)

    def _known(self, topic: Topic) -> TopicDefinition:
        first = self._first.get(topic.id)
        if first is None:
            first = defined(self._log.describe_topic(topic))
            self._first[topic.id] = first
        added = self._versions.known(topic)
        return replace(first, versions=(*first.versions, *added)) if added else first

    def _unknown(self, wanted: AnyTopic) -> InvalidError:
        name = str.__str__(wanted) if isinstance(wanted, str) else wanted.name
        names = {topic.name for topic in self._visible()}
        near = difflib.get_close_matches(name, sorted(names - {name}), _NEAR_MAX)
        return InvalidError(
            "there is no such topic, register it first or check the spelling", topic=name, near=near
        )


def _retention_s(metadata: Mapping[str, str]) -> int | None:
    text = metadata.get(RETENTION_KEY)
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX:
        return int(text)
    raise InvalidError(f"{RETENTION_KEY} is a whole number of seconds, as text", value=text)


def _check_same(
    known: TopicDefinition, schema: pa.Schema, metadata: Mapping[str, str], partitions: int
) -> None:
    if not known.is_typed:
        raise SchemaConflictError(
            "the topic exists, and has no schema",
            [f"kind: {known.value_kind} in the topic"],
            topic=known.name,
        )
    found = [] if known.version_of(schema) is not None else differences(schema, known.schema)
    if partitions not in (known.partitions, *known.earlier_partitions):
        found.append(f"partitions: {partitions} given, {known.partitions} in the topic")
    found += [
        f"metadata {key}: {metadata.get(key)!r} given, {known.metadata.get(key)!r} in the topic"
        for key in sorted({*metadata, *known.metadata})
        if metadata.get(key) != known.metadata.get(key)
    ]
    if found:
        raise SchemaConflictError(
            "the topic is registered otherwise, evolve it or choose another name",
            found,
            topic=known.name,
        )
