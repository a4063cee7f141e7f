"""The later versions of all schemas: read from the records of an internal topic."""

import base64
import copy
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

import pyarrow as pa

from strandline.log import Log, TopicName
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
        """Read versions that others have added, and return where the internal topic ends."""
        try:
            internal = log.topic(SCHEMAS_TOPIC)
        except InvalidError:
            return Offset(0)  # None was added yet.
        with self._lock:
            for record in log.read(internal, 0, self._next):
                self._fold(record.event)
                self._next = Offset(record.offset + 1)
            return self._next

    def add(self, log: Log, topic: Topic, schema: pa.Schema, end: Offset) -> bool:
        """Add a version if none was added since the topic ended at `end`; return whether it was."""
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
        try:
            schemas.append(unpacked(base64.b64decode(added["schema"])))
        except CorruptError as error:
            # Only this topic is affected: versions of the others are read on.
            schemas.append(error)


def definition_of(log: Log, topic: TopicName) -> TopicDefinition:
    """Return a topic with every version of its schema, read from the log."""
    definition = defined(log.describe_topic(topic))
    if not definition.is_typed:
        return definition
    added = SchemaVersions()
    added.catch_up(log)
    return replace(definition, versions=(*definition.versions, *added.known(definition.topic)))
