"""A topic as returned by a scope."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa

from strandline.typed.schemas import unpacked
from strandline.values import InvalidError, Tenant, Topic, TopicDescription, ValueKind
from strandline.values.arguments import check_whole


@dataclass(frozen=True, slots=True)
class TopicDefinition:
    """A topic's registration as of its lookup.

    May be passed wherever a scope takes a name: it stands for this same topic, even if
    another one has its name by now, and saves the lookup.
    """

    topic: Topic
    value_kind: ValueKind
    versions: tuple[pa.Schema, ...]
    """The schemas that may be published, oldest first; empty if there are none."""
    metadata: Mapping[str, str]
    partitions: int
    created_at_us: int
    payload_schema: pa.Schema | None = None
    """The declared payload schema of a topic of events."""
    earlier_partitions: tuple[int, ...] = ()
    """Earlier partition counts, oldest first."""

    @property
    def id(self) -> UUID:
        """The topic's id, a UUIDv7."""
        return self.topic.id

    @property
    def name(self) -> str:
        """The topic's name, unique for its tenant."""
        return self.topic.name

    @property
    def tenant(self) -> Tenant | None:
        """The topic's tenant; None for a topic that all tenants see."""
        return self.topic.tenant

    @property
    def schema(self) -> pa.Schema:
        """The newest version of the schema. InvalidError if the topic has none."""
        return self.version_at(None)

    @property
    def is_typed(self) -> bool:
        """Whether the topic has a schema."""
        return bool(self.versions)

    def version_at(self, number: int | None) -> pa.Schema:
        """Return a version of the schema, counted from 1; None stands for the newest."""
        if not self.versions:
            raise InvalidError("this topic has no schema", topic=self.name)
        if number is None:
            return self.versions[-1]
        wanted = check_whole("version", number, 1)
        if wanted <= len(self.versions):
            return self.versions[wanted - 1]
        raise InvalidError(
            "the topic's schema has no such version", version=wanted, newest=len(self.versions)
        )

    def version_of(self, schema: pa.Schema) -> int | None:
        """Return the number of the version that equals `schema`, if one does."""
        if not isinstance(schema, pa.Schema):
            raise InvalidError("a schema is a pyarrow.Schema", type=type(schema).__name__)
        for number in range(len(self.versions), 0, -1):
            if schema.equals(self.versions[number - 1]):
                return number
        return None


def defined(description: TopicDescription) -> TopicDefinition:
    """Return the topic's registration, with only the first version of its schema."""
    settings = description.settings
    first = () if settings.batch_schema is None else (unpacked(settings.batch_schema),)
    return TopicDefinition(
        description.topic,
        settings.value_kind,
        first,
        dict(settings.metadata),
        settings.partitions,
        description.created_at_us,
        settings.payload_schema,
        tuple(each.partitions for each in settings.earlier_partitions),
    )
