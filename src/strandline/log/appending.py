"""The way of values into a store: checked, routed, written, and a receipt for each."""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

from strandline._core import IS_COMPILED
from strandline.log.draft import Draft, draft
from strandline.log.draft_columns import COLUMNS_MIN, EventColumns, size_of
from strandline.log.event_rows import EventRows
from strandline.log.metrics import LogCounts, TopicCounts
from strandline.log.receipts import Part, Receipt, Receipts, handed_back
from strandline.log.results import TopicName, Value
from strandline.log.retention import Retention
from strandline.log.store import (
    AppendRequest,
    DroppedError,
    Outcome,
    Shortcut,
    Store,
    StoredTopic,
)
from strandline.log.terms import Terms, owner
from strandline.values import (
    ClosedError,
    Durability,
    Event,
    InvalidError,
    Partition,
    Topic,
    UnavailableError,
    ValueKind,
)
from strandline.values.arguments import check_items

_FIRST = Partition(0)
_, _WRITTEN, _DURABLE = Durability
_EVENT = ValueKind.EVENT
# What makes a named tuple by name is slow, and one is made for each append.
_new: Any = tuple.__new__

Finding = Callable[[TopicName, Sequence[Value]], StoredTopic]
"""Returns the topic to append these values to, or raises."""


class TopicLane:
    """A topic as appends need it."""

    __slots__ = ("counts", "kind", "partitions", "shortcuts", "stored", "tenant", "turns")

    def __init__(self, stored: StoredTopic, counts: TopicCounts) -> None:
        self.stored = stored
        self.counts = counts
        self.tenant = stored.topic.tenant
        self.kind = stored.settings.value_kind
        self.partitions = stored.settings.partitions
        #: Whose turn it is among the partitions, where nothing else decides.
        self.turns = itertools.count()
        #: What appends plain events to each partition, once a first append has found it.
        self.shortcuts: dict[int, Shortcut] = {}

    def turn(self) -> int:
        """Return the next turn."""
        return next(self.turns)


class Appends:
    """Appends values to topics. Any thread may use it."""

    def __init__(
        self,
        store: Store[StoredTopic],
        find: Finding,
        retention: Retention,
        record_bytes_max: int,
        counts: LogCounts,
    ) -> None:
        self._store = store
        self._counts = counts
        self._find = find
        self._retention = retention
        self._trims_at_once = store.capabilities.trims_at_once
        self._record_bytes_max = record_bytes_max
        self._durability_max = store.capabilities.durability_max
        self._default = min(_WRITTEN, self._durability_max)
        self._stores_columns = store.capabilities.stores_columns
        #: Of a store that has shortcuts; see Shortcut.
        self._shortcut: Callable[[StoredTopic, int], Shortcut | None] | None = getattr(
            store, "shortcut", None
        )
        if not IS_COMPILED:
            self._shortcut = None
        #: Where appends went last; the store says if a topic is gone.
        self._lanes: dict[TopicName, TopicLane] = {}

    def knows(self, topic: object) -> bool:
        """Whether an append to this topic needs no look at the store first."""
        return isinstance(topic, str | Topic) and topic in self._lanes

    def append(
        self,
        topic: TopicName,
        value: Value,
        key: str | None,
        terms: Terms,
        *,
        may_wait: bool = True,
    ) -> Receipt:
        """Append one value; the outcome may still be open if this may not wait."""
        try:
            lane = self._lanes.get(topic) or self._lane(topic, (value,))
        except TypeError:
            # What cannot be looked up is no topic either.
            lane = self._lane(topic, (value,))
        try:
            return self._append(lane, value, key, terms, may_wait=may_wait)
        except DroppedError:
            self._lanes.pop(topic, None)
            lane = self._lane(topic, (value,))
            return self._append(lane, value, key, terms, may_wait=may_wait)

    def append_many(
        self,
        topic: TopicName,
        values: Sequence[Value],
        keys: Sequence[str | None] | None,
        terms: Terms,
        *,
        may_wait: bool = True,
    ) -> Receipts:
        """Append each value as a record of its own; as `append`."""
        try:
            lane = self._lanes.get(topic) or self._lane(topic, values)
        except TypeError:
            # What cannot be looked up is no topic either.
            lane = self._lane(topic, values)
        try:
            return self._append_many(lane, values, keys, terms, may_wait=may_wait)
        except DroppedError:
            self._lanes.pop(topic, None)
            lane = self._lane(topic, values)
            return self._append_many(lane, values, keys, terms, may_wait=may_wait)

    def drop_topic(self, topic: Topic) -> None:
        """Drop what is cached of one topic; the turns of all others go on."""
        for name in (topic, topic.name):
            lane = self._lanes.get(name)
            if lane is not None and lane.stored.topic.id == topic.id:
                self._lanes.pop(name, None)

    # --- inside ---

    def _lane(self, topic: TopicName, values: Sequence[Value]) -> TopicLane:
        found = self._find(topic, values)
        lane = TopicLane(found, self._counts.of(found.topic))
        # Kept by name, so that partitions are filled in turn.
        return self._lanes.setdefault(topic, lane)

    def _append(
        self, lane: TopicLane, value: Value, key: str | None, terms: Terms, *, may_wait: bool
    ) -> Receipt:
        short = lane.shortcuts.get(0) if lane.partitions == 1 else None
        if short is not None and key is None and terms.is_plain and type(value) is Event:
            level = self._default if terms.durability is None else terms.level(self._durability_max)
            outcome = self._short(lane, short, value, level, may_wait=may_wait)
            if outcome is not None:
                return Receipt(outcome, _FIRST, level, self._durability_max, value)
        drafted = draft(value, key, lane.kind, self._record_bytes_max)
        if terms.is_plain and lane.partitions == 1:
            number = _FIRST
            level = self._default if terms.durability is None else terms.level(self._durability_max)
            request = _new(AppendRequest, ((drafted,), lane.tenant, None, (), None, None, None))
        else:
            number = terms.route_one(drafted.key, lane.partitions, lane.turn)
            level = terms.level(self._durability_max)
            request = self._request(lane, (drafted,), (0,), terms)
        try:
            outcome = self._store.append(
                lane.stored, number, request, level, terms.timeout_s, may_wait=may_wait
            )
        except UnavailableError as error:
            raise handed_back(error, value) from error.__cause__
        counts = lane.counts
        counts.appends += 1
        counts.records += 1
        counts.bytes += drafted.size_bytes
        if self._trims_at_once:
            self._trim(lane.stored, number)
        elif self._shortcut is not None and number not in lane.shortcuts:
            self._look_for_shortcut(lane, number)
        return Receipt(outcome, number, level, self._durability_max, value)

    def _look_for_shortcut(self, lane: TopicLane, number: int) -> None:
        """Have the next append of plain events take the short way, if there is one."""
        is_plain = lane.tenant is None and lane.kind is _EVENT
        found = self._shortcut(lane.stored, number) if self._shortcut and is_plain else None
        if found is not None:
            lane.shortcuts[number] = found

    def _append_shortly(
        self, lane: TopicLane, values: list[Any], level: Durability, *, may_wait: bool
    ) -> Receipts | None:
        """Append plain events to the partitions of their keys; None, with nothing done, if not."""
        routed: Any = {0: (range(len(values)), values)}
        if lane.partitions > 1:
            first = next(iter(lane.shortcuts.values()))
            routed = first.route(values, lane.partitions, self._record_bytes_max)
            if routed is NotImplemented or not routed or routed.keys() - lane.shortcuts.keys():
                return None
        at_once = level if len(routed) == 1 else self._default
        parts: list[Part] = []
        for number, (indices, events) in routed.items():
            try:
                outcome = self._short(
                    lane, lane.shortcuts[number], events, at_once, may_wait=may_wait
                )
                if outcome is None:
                    if not parts:
                        return None
                    outcome = self._append_part(
                        lane, Partition(number), events, at_once, may_wait=may_wait
                    )
            except UnavailableError as error:
                stored = {index for part in parts for index in part.indices}
                rest = [value for index, value in enumerate(values) if index not in stored]
                raise handed_back(error, rest if stored else values) from error.__cause__
            parts.append(Part(Partition(number), indices, outcome))
        receipts = Receipts(len(values), parts, level, self._durability_max, values)
        if may_wait and at_once is not level and receipts.is_settled:
            receipts.wait()
        return receipts

    def _append_part(
        self,
        lane: TopicLane,
        number: Partition,
        values: list[Any],
        level: Durability,
        *,
        may_wait: bool,
    ) -> Outcome:
        """Append a part of plain events in the usual way."""
        drafts = self._drafts(lane, values, None)
        request = AppendRequest(drafts, None, None, (), None, None)
        outcome = self._store.append(lane.stored, number, request, level, None, may_wait=may_wait)
        self._count(lane, len(values), size_of(drafts))
        return outcome

    def _count(self, lane: TopicLane, records: int, size_bytes: int) -> None:
        counts = lane.counts
        counts.appends += 1
        counts.records += records
        counts.bytes += size_bytes

    def _short(
        self, lane: TopicLane, short: Shortcut, values: Any, level: Durability, *, may_wait: bool
    ) -> Outcome | None:
        """Append an event or a list of events by a shortcut; None, with nothing done, if not."""
        if level is _DURABLE and not may_wait:
            return None
        append: Any = short.append_events if type(values) is list else short.append_event
        try:
            outcome: Any = append(values, self._record_bytes_max)
            if outcome is NotImplemented:
                return None
            self._count(lane, len(values) if type(values) is list else 1, short.size_of(values))
            if level is _DURABLE:
                outcome.wait(level)
        except UnavailableError as error:
            raise handed_back(error, values) from error.__cause__
        return outcome  # type: ignore[no-any-return]

    def _append_many(
        self,
        lane: TopicLane,
        values: Sequence[Value],
        keys: Sequence[str | None] | None,
        terms: Terms,
        *,
        may_wait: bool,
    ) -> Receipts:
        terms.check_count(len(values))
        level = terms.level(self._durability_max)
        if lane.shortcuts and keys is None and terms.is_plain and type(values) is list:
            short = self._append_shortly(lane, values, level, may_wait=may_wait)
            if short is not None:
                return short
        drafts = self._drafts(lane, values, keys)
        routed = self._routed(lane, drafts, terms)
        # Several partitions are written first, and then wait for the requested level.
        at_once = level if len(routed) == 1 else self._default
        parts: list[Part] = []
        try:
            for number, indices in routed.items():
                chosen = _chosen(drafts, indices)
                request = self._request(lane, chosen, indices, terms)
                outcome = self._store.append(
                    lane.stored, number, request, at_once, terms.timeout_s, may_wait=may_wait
                )
                parts.append(Part(number, indices, outcome))
                self._count(lane, len(chosen), size_of(chosen))
                if self._trims_at_once:
                    self._trim(lane.stored, number)
                elif self._shortcut is not None and number not in lane.shortcuts:
                    self._look_for_shortcut(lane, number)
        except UnavailableError as error:
            stored = {index for part in parts for index in part.indices}
            rest = [value for index, value in enumerate(values) if index not in stored]
            raise handed_back(error, rest if stored else values) from error.__cause__
        receipts = Receipts(len(values), parts, level, self._durability_max, values)
        if may_wait and at_once is not level and receipts.is_settled:
            receipts.wait(timeout_s=terms.timeout_s)
        return receipts

    def _trim(self, topic: StoredTopic, partition: Partition) -> None:
        if topic.settings.has_limits:
            # Whatever happens to the topic meanwhile, the append counts.
            with contextlib.suppress(DroppedError, ClosedError):
                self._retention.apply(topic, partition)

    def _drafts(
        self, lane: TopicLane, values: Sequence[Value], keys: Sequence[str | None] | None
    ) -> Sequence[Draft]:
        kind, bytes_max = lane.kind, self._record_bytes_max
        if self._stores_columns and keys is None and len(values) >= COLUMNS_MIN and kind is _EVENT:
            columns = EventColumns.of(values, bytes_max)
            if columns is not None:
                return columns
        return [
            draft(value, key, kind, bytes_max)
            for value, key in zip(values, keys or repeat(None, len(values)), strict=True)
        ]

    def _routed(
        self, lane: TopicLane, drafts: Sequence[Draft], terms: Terms
    ) -> Mapping[Partition, Sequence[int]]:
        if drafts and (lane.partitions == 1 or terms.partition is not None):
            number = terms.route_one(None, lane.partitions, lane.turn)
            return {number: range(len(drafts))}
        keys = drafts.keys if isinstance(drafts, EventColumns) else [each.key for each in drafts]
        return terms.route(keys, lane.partitions, lane.turn)

    def _request(
        self, lane: TopicLane, drafts: Sequence[Draft], indices: Sequence[int], terms: Terms
    ) -> AppendRequest:
        first = terms.sequence
        return AppendRequest(
            drafts,
            owner(lane.stored.topic, terms.tenant),
            terms.producer,
            () if first is None else [first + index for index in indices],
            terms.idempotency_key,
            terms.expected_offset,
        )


def _chosen(drafts: Sequence[Draft], indices: Sequence[int]) -> Sequence[Draft]:
    if len(indices) == len(drafts):
        return drafts
    if isinstance(drafts, EventColumns) and len(indices) > 1:
        return drafts.chosen(indices)
    return [drafts[index] for index in indices]


def check_values(
    values: Iterable[Value], keys: Sequence[str | None] | None
) -> tuple[Sequence[Value], Sequence[str | None] | None]:
    """Return values to append and their keys, in lists; InvalidError unless each has its key."""
    each: Sequence[Value] = (
        values if isinstance(values, EventRows) else check_items("values", values)
    )
    own = None if keys is None else check_items("keys", keys)
    if own is not None and len(own) != len(each):
        raise InvalidError("there is one key for each value", keys=len(own), values=len(each))
    return each, own
