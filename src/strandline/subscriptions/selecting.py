"""Skips records that do not match in the store, if it can. See design 0107."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, cast

from strandline.log import Log, ReadRange, parts_of
from strandline.log.selecting_store import (
    EvaluatingStore,
    RecordBound,
    SelectedPage,
    SelectingStore,
)
from strandline.log.store import StoredTopic
from strandline.predicates.bounds import Bound
from strandline.subscriptions.cursor import TopicPartition
from strandline.subscriptions.screening import EventScreen, Screen
from strandline.values import DroppedError, Topic
from strandline.values.instants import us_since_epoch

_COLUMNS: Final = frozenset({"kind", "key", "timestamp", "occurred_at"})


class Selecting:
    """Asks a store for the records that may be wanted, or for the offset of the next one."""

    def __init__(self, log: Log) -> None:
        self._store = parts_of(log).store
        self._topics: dict[Topic, StoredTopic | None] = {}
        #: Whether the store evaluates predicates; cleared if it turns out that it cannot.
        self._is_evaluated = self._store.capabilities.has_evaluation

    def page(
        self, place: TopicPartition, wanted: ReadRange, screens: Sequence[Screen]
    ) -> SelectedPage | None:
        """Return the records that a screen may want; None if they must be read to decide.

        Raises as the log's `read`.
        """
        topic = self._topic(place.topic) if self._is_evaluated else None
        if topic is None:
            return None
        store = cast("EvaluatingStore[StoredTopic]", self._store)
        predicates = [each.text for each in screens]
        page = store.read_selected(topic, place.partition, wanted, predicates)
        self._is_evaluated = page is not None
        return page

    def first_wanted(self, place: TopicPartition, start: int, screen: Screen) -> int:
        """Return the first offset from `start` on that may match; `start` if unknown."""
        if not self._store.capabilities.has_selection or not isinstance(screen, EventScreen):
            return start
        bounds = tuple(_bounds(screen.predicate.bounds))
        topic = self._topic(place.topic)
        if not bounds or topic is None:
            return start
        store = cast("SelectingStore[StoredTopic]", self._store)
        try:
            return store.first_meeting(topic, place.partition, start, bounds)
        except DroppedError:
            return start  # Reading the records raises the error.

    def _topic(self, topic: Topic) -> StoredTopic | None:
        if topic not in self._topics:
            self._topics[topic] = self._store.find_topic_id(topic.id)
        return self._topics[topic]


def _bounds(found: tuple[Bound, ...]) -> Iterator[RecordBound]:
    for each in found:
        if each.type is not None:
            yield RecordBound(each.column, each.comparison, each.values, each.type)
            continue
        values = tuple(_plain(value) for value in each.values if value is not None)
        if each.column in _COLUMNS and (values or not each.values):
            yield RecordBound(each.column, each.comparison, values)


def _plain(value: Any) -> str | int:
    return us_since_epoch(value) if isinstance(value, datetime) else value
