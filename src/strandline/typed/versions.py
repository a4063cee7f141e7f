"""The later versions of all schemas: read from an internal topic, or from a store that has them."""

import base64
import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, cast
from uuid import UUID

import pyarrow as pa

from strandline.log import Log, SchemaStore, TopicName, parts_of
from strandline.typed.definition import TopicDefinition, defined
from strandline.typed.schemas import packed, unpacked
from strandline.values import ConflictError, CorruptError, Event, InvalidError, Offset, Topic
from strandline.values.internal_topics import SCHEMAS_TOPIC

_ADDED: Final = "schema.added"


class SchemaVersions:
    """A log object's cache of later versions. Thread-safe.

    A version exists once its record is durable. Each was checked against the one before it, and
    is stored with the expected offset at which that check was made: so no two versions have the
    same predecessor.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = Offset(0)
        self._added: dict[UUID, list[pa.Schema | CorruptError]] = {}

    def known(self, topic: Topic) -> Sequence[pa.Schema]:
        """Return the later versions read so far; CorruptError if one is unreadable."""
        with self._lock:
            added = tuple(self._added.get(topic.id, ()))
        for each in added:
            if isinstance(each, CorruptError):
                raise copy.copy(each)
        return added

    def catch_up(self, log: Log) -> Offset:
        """Read versions that others have added, and return how many entries there are.

        Of the internal topic, or, where that is not open to the log, of what its store shows.
        """
        store = parts_of(log).store
        if store.capabilities.has_schemas:
            return self._take(cast("SchemaStore", store).schemas())
        try:
            internal = log.topic(SCHEMAS_TOPIC)
        except InvalidError:
            return Offset(0)  # None was added yet.
        with self._lock:
            for record in log.read(internal, 0, self._next):
                self._fold(record.event)
                self._next = Offset(record.offset + 1)
            return self._next

    def every(self) -> Mapping[UUID, Sequence[pa.Schema | CorruptError]]:
        """Return the later versions of all topics that were read so far, by the topic's id."""
        with self._lock:
            return {each: tuple(versions) for each, versions in self._added.items()}

    def add(self, log: Log, topic: Topic, schema: pa.Schema, end: Offset) -> bool:
        """Add a version if none was since `catch_up` returned `end`; return whether it was."""
        store = parts_of(log).store
        if store.capabilities.has_schemas:
            return cast("SchemaStore", store).add_schema(topic, packed(schema), end)
        internal = log.create_topic(SCHEMAS_TOPIC, internal=True)
        content = base64.b64encode(packed(schema)).decode("ascii")
        event = Event(_ADDED, {"topic": str(topic.id), "schema": content})
        try:
            log.append(
                internal, event, partition=0, expected_offset=end, durability=log.durability_max
            )
        except ConflictError:
            return False
        return True

    def _fold(self, event: Event) -> None:
        added = event.payload
        schemas = self._added.setdefault(UUID(added["topic"]), [])
        schemas.append(_read(base64.b64decode(added["schema"])))

    def _take(self, found: Mapping[UUID, Sequence[bytes]]) -> Offset:
        with self._lock:
            for topic_id, contents in found.items():
                schemas = self._added.setdefault(topic_id, [])
                schemas += [_read(each) for each in contents[len(schemas) :]]
        return Offset(sum(map(len, found.values())))


def _read(content: bytes) -> pa.Schema | CorruptError:
    try:
        return unpacked(content)
    except CorruptError as error:
        # Only this topic is affected: versions of the others are read on.
        return error


def definition_of(log: Log, topic: TopicName) -> TopicDefinition:
    """Return a topic with every version of its schema, read from the log."""
    definition = defined(log.describe_topic(topic))
    if not definition.is_typed:
        return definition
    added = SchemaVersions()
    added.catch_up(log)
    return replace(definition, versions=(*definition.versions, *added.known(definition.topic)))
