"""The part of a record that a trigger selects."""

from collections.abc import Callable
from typing import Any, TypeAlias

from strandline.log import Log, parts_of
from strandline.predicates import parse_predicate
from strandline.subscriptions.screening import Screen, screen_for
from strandline.typed.catalogue import Catalogue
from strandline.typed.schemas import conformed
from strandline.typed.versions import SchemaVersions
from strandline.values import InvalidError, Record, Topic
from strandline.values.record import with_value

Wanted: TypeAlias = Callable[[Record], Record | None]
"""Returns the record, or its matching rows; None if it is skipped."""


def wanted(log: Log, topic: Topic, where: str) -> Wanted:
    """Return a filter of the records that `where` matches; a blank text matches all.

    In a typed topic, records are returned in the newest schema. `current_timestamp` is the
    time of this call. PredicateError, with the position, if the text does not fit the topic;
    InvalidError for a topic of bytes.
    """
    if not isinstance(where, str):
        raise InvalidError("where is the text of a predicate", type=type(where).__name__)
    settings = log.describe_topic(topic).settings
    now_us = parts_of(log).clock.now_us()
    screen = screen_for(where, settings, now_us) if where.strip() else None
    if settings.batch_schema is None:
        return lambda record: _screened(screen, record)
    newest = NewestSchema(log, topic)
    parse_predicate(where, newest.schema)
    return lambda record: _screened(screen, newest.of(record))


class NewestSchema:
    """Converts records of a typed topic to its newest schema."""

    def __init__(self, log: Log, topic: Topic) -> None:
        self._catalogue = Catalogue(log, topic.tenant, SchemaVersions())
        self._definition = self._catalogue.look_up(topic)

    @property
    def schema(self) -> Any:
        """The newest schema that is known here."""
        return self._definition.schema

    def of(self, record: Record) -> Record:
        """Return the record in that schema."""
        batch: Any = record.value
        if batch.schema.equals(self.schema):
            return record
        if self._definition.version_of(batch.schema) is None:
            self._definition = self._catalogue.renewed(self._definition)
        return with_value(record, conformed(batch, self.schema))


def _screened(screen: Screen | None, record: Record) -> Record | None:
    if screen is None:
        return record
    (outcome,) = screen.sift([record])
    if isinstance(outcome, InvalidError):
        raise outcome
    return outcome
