"""The append path: check values, route them to partitions, write, return receipts."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from strandline._core import IS_COMPILED
from strandline.clock import Clock
from strandline.log.draft import Draft, draft
from strandline.log.draft_columns import COLUMNS_MIN, EventColumns, EventDrafts, size_of
from strandline.log.event_rows import EventRows
from strandline.log.metrics import LogCounts
from strandline.log.quotas import Quotas
from strandline.log.receipts import (
    Part,
    Receipt,
    Receipts,
    finish,
    handed_back,
    outcome_of,
)
from strandline.log.results import TopicName, Value
from strandline.log.retention import Retention
from strandline.log.scheduling import scheduled, scheduled_each
from strandline.log.shortcuts import Shortcuts
from strandline.log.store import AppendRequest, Outcome, Shortcut, Store, StoredTopic
from strandline.log.terms import Terms, check_partition, owner
from strandline.log.topic_lane import TopicLane
from strandline.values import (
    ClosedError,
    ConflictError,
    DroppedError,
    Durability,
    Event,
    InvalidError,
    Partition,
    Topic,
    UnavailableError,
    ValueKind,
)
from strandline.values.arguments import INT64_MAX, check_items, whole

if TYPE_CHECKING:
    from strandline.log.shortcuts import TopicAppenders

if TYPE_CHECKING or IS_COMPILED:
    from strandline._core.core import append_many_warm, append_on_loop, append_warm, sizes_of
else:
    append_warm = append_many_warm = append_on_loop = sizes_of = None

__all__ = ["Appends", "append_many_warm", "append_on_loop", "append_warm", "check_values"]

_FIRST = Partition(0)
_NAMES: tuple[type, ...] = (str, Topic)
_WRITTEN: Final = Durability.WRITTEN
_DURABLE: Final = Durability.DURABLE
_EVENT = ValueKind.EVENT
# Calling a named tuple's class is slow, and each append makes one.
_new: Any = tuple.__new__

Finding = Callable[[TopicName, Sequence[Value]], StoredTopic]
"""Returns the topic to append these values to, or raises."""


class Appends:
    """Appends values to topics. Any thread may use it."""

    def __init__(
        self,
        store: Store[StoredTopic],
        find: Finding,
        retention: Retention,
        record_bytes_max: int,
        counts: LogCounts,
        *,
        quotas: Quotas,
        clock: Clock,
        on_topic: Callable[[StoredTopic], None],
    ) -> None:
        self._clock = clock
        #: Called with each topic that this process appends to, when it is looked up.
        self._on_topic = on_topic
        self._monotonic = clock.monotonic
        self._store = store
        self._counts = counts
        self._quotas = quotas
        self._find = find
        self._retention = retention
        self._trims_at_once = store.capabilities.trims_at_once
        self._record_bytes_max = record_bytes_max
        self._durability_max = store.capabilities.durability_max
        self._default = min(_WRITTEN, self._durability_max)
        self._stores_columns = store.capabilities.stores_columns
        self._shortcuts = shortcuts = Shortcuts(
            store, clock, (self._default, self._durability_max), record_bytes_max
        )
        #: The core's appenders for events without terms, by topic name; None without core.
        self.appenders: TopicAppenders | None = shortcuts.appenders
        #: What is cached of each topic appended to; the store reports if a topic is gone.
        self._lanes: dict[TopicName, TopicLane] = {}

    def knows(self, topic: object) -> bool:
        """Whether an append to this topic needs no lookup in the store first."""
        if not isinstance(topic, str | Topic) or (lane := self._lanes.get(topic)) is None:
            return False
        return self.is_fresh(topic) and not lane.earlier and self._quotas.is_free(lane.tenant)

    def is_fresh(self, topic: TopicName) -> bool:
        """Whether what is cached of this topic is recent enough to use."""
        lane = self._lanes.get(topic)
        return lane is not None and self._monotonic() < lane.fresh_until

    def append(
        self,
        topic: TopicName,
        value: Value,
        key: str | None,
        terms: Terms,
        *,
        may_wait: bool = True,
    ) -> Receipt:
        """Append one value. If `may_wait` is false, the outcome may still be open."""
        if terms.deliver_at is not None:
            value = scheduled(value, terms.deliver_at)
        try:
            known = self._lanes.get(topic) if isinstance(topic, _NAMES) else None
            lane = known or self._lane(topic, (value,))
        except TypeError:
            # An unhashable value cannot name a topic either.
            lane = self._lane(topic, (value,))
        if may_wait and self._monotonic() >= lane.fresh_until:
            self._look_at(lane)
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
        """Append each value as a separate record. See `append` for `may_wait`."""
        if terms.deliver_at is not None:
            values = scheduled_each(values, terms.deliver_at)
        try:
            known = self._lanes.get(topic) if isinstance(topic, _NAMES) else None
            lane = known or self._lane(topic, values)
        except TypeError:
            # An unhashable value cannot name a topic either.
            lane = self._lane(topic, values)
        if may_wait and self._monotonic() >= lane.fresh_until:
            self._look_at(lane)
        try:
            return self._append_many(lane, values, keys, terms, may_wait=may_wait)
        except DroppedError:
            self._lanes.pop(topic, None)
            lane = self._lane(topic, values)
            return self._append_many(lane, values, keys, terms, may_wait=may_wait)

    def look_at(self, topic: str) -> None:
        """Look up a known topic again early, so that the next append need not."""
        if (lane := self._lanes.get(topic)) is not None:
            self._look_at(lane)

    def drop_topic(self, topic: Topic) -> None:
        """Drop what is cached of one topic; the round robin of other topics is unchanged."""
        for name in (topic, topic.name):
            lane = self._lanes.get(name)
            if lane is not None and lane.stored.topic.id == topic.id:
                self._lanes.pop(name, None)
        if self.appenders is not None:
            self.appenders.pop(topic.name, None)

    # --- inside ---

    def _lane(self, topic: TopicName, values: Sequence[Value]) -> TopicLane:
        found = self._find(topic, values)
        lane = TopicLane(topic, found, self._counts.of(found.topic), self._clock)
        self._on_topic(found)
        # Kept by name, so that the round robin over partitions continues.
        return self._lanes.setdefault(topic, lane)

    def _look_at(self, lane: TopicLane) -> None:
        """Look up a topic again: another process may have changed it."""
        topic = lane.stored.topic
        found = self._store.find_topic(topic.tenant, topic.name, fresh=True)
        # If the topic was dropped, the append itself finds that.
        is_same = found is not None and found.topic.id == topic.id
        lane.route(found if found is not None and is_same else lane.stored, self._clock)
        self._on_topic(lane.stored)

    def _append(
        self, lane: TopicLane, value: Value, key: str | None, terms: Terms, *, may_wait: bool
    ) -> Receipt:
        level = self._default if terms.durability is None else terms.level(self._durability_max)
        short = lane.shortcuts.get(0) if lane.partitions == 1 else None
        if short is not None and key is None and terms.is_plain and type(value) is Event:
            outcome = self._short(lane, short, value, level, may_wait=may_wait)
            if outcome is not None:
                self._shortcuts.have_appender(lane, _FIRST)
                return Receipt(outcome, _FIRST, level, self._durability_max, value)
        drafted = draft(value, key, lane.kind, self._record_bytes_max)
        if terms.is_plain and lane.partitions == 1:
            number = _FIRST
            request = _new(AppendRequest, ((drafted,), lane.tenant, None, (), None, None, None))
        else:
            if terms.partition is None:
                number = terms.route_one(drafted.key, lane.partitions, lane.turn)
            else:
                number = self._numbered(lane, terms.partition)
            request = self._request(lane, (drafted,), (0,), terms)
            if lane.earlier and terms.has_identity:
                (number,) = self._routed_before(lane, (drafted,), terms) or (number,)
        try:
            if request.tenant is not None:
                self._quotas.admit(lane.stored, request.tenant, 1, drafted.size_bytes)
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
        elif self.appenders is not None:
            self._shortcuts.look(lane, number)
        return Receipt(outcome, number, level, self._durability_max, value)

    def _append_shortly(
        self, lane: TopicLane, values: list[Any], level: Durability, *, may_wait: bool
    ) -> Receipts | None:
        """Append plain events to their keys' partitions; None, with nothing done, if it cannot."""
        routed: Any = {0: (range(len(values)), values)}
        if lane.partitions > 1:
            first = next(iter(lane.shortcuts.values()))
            routed = first.route(values, lane.partitions, self._record_bytes_max)
            if routed is NotImplemented or routed.keys() - lane.shortcuts.keys():
                return None
        at_once = level if len(routed) == 1 else self._default
        parts: list[Part] = []
        for number, (indices, events) in routed.items():
            try:
                outcome = self._short_part(lane, number, events, at_once, may_wait=may_wait)
                if outcome is None:
                    if not parts:
                        return None
                    outcome = self._append_part(
                        lane, Partition(number), events, at_once, may_wait=may_wait
                    )
                self._shortcuts.have_appender(lane, Partition(number))
            except UnavailableError as error:
                stored = {index for part in parts for index in part.indices}
                rest = [value for index, value in enumerate(values) if index not in stored]
                raise handed_back(error, rest if stored else values) from error.__cause__
            parts.append(Part(Partition(number), indices, outcome))
        receipts = Receipts(len(values), parts, level, self._durability_max, values)
        if may_wait and at_once is not level and receipts.is_settled:
            receipts.wait()
        return receipts

    def _short_part(
        self, lane: TopicLane, number: int, events: list[Any], level: Durability, *, may_wait: bool
    ) -> Outcome | None:
        """Append events by the fastest path; None, with nothing done, if no fast path fits."""
        appender = lane.appenders[number]
        if appender is not None and level is self._default:
            first: Any = appender.append(events)
            if first is not NotImplemented:
                return outcome_of(first)
        return self._short(lane, lane.shortcuts[number], events, level, may_wait=may_wait)

    def _append_part(
        self,
        lane: TopicLane,
        number: Partition,
        values: list[Any],
        level: Durability,
        *,
        may_wait: bool,
    ) -> Outcome:
        """Append a part of plain events by the general path."""
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
        """Append an event or a list of events by a shortcut; None, nothing done, if it cannot."""
        if level is _DURABLE and not may_wait:
            return None
        append: Any = short.append_events if type(values) is list else short.append_event
        try:
            outcome: Any = append(values, self._record_bytes_max)
            if outcome is NotImplemented:
                return None
            self._count(lane, len(values) if type(values) is list else 1, short.size_of(values))
            if level is _DURABLE:
                finish(outcome.wait, level)
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
        if lane.earlier and terms.has_identity:
            routed = self._routed_before(lane, drafts, terms) or routed
        # With several partitions, write to all of them before waiting for the level.
        at_once = level if len(routed) == 1 else self._default
        parts: list[Part] = []
        try:
            tenant = owner(lane.stored.topic, terms.tenant)
            if tenant is not None and drafts:
                # Before any of the partitions is written to.
                self._quotas.admit(lane.stored, tenant, len(drafts), size_of(drafts))
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
                elif self.appenders is not None:
                    self._shortcuts.look(lane, number)
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
            # The append has succeeded, also if the topic is dropped or the log closed meanwhile.
            with contextlib.suppress(DroppedError, ClosedError):
                self._retention.apply(topic, partition)

    def _drafts(
        self, lane: TopicLane, values: Sequence[Value], keys: Sequence[str | None] | None
    ) -> Sequence[Draft]:
        kind, bytes_max = lane.kind, self._record_bytes_max
        if IS_COMPILED and keys is None and kind is _EVENT and type(values) is list:
            sizes = sizes_of(values, bytes_max)
            if sizes is not NotImplemented:
                return EventDrafts(values, sizes)
        elif self._stores_columns and keys is None and len(values) >= COLUMNS_MIN:
            columns = EventColumns.of(values, bytes_max) if kind is _EVENT else None
            if columns is not None:
                return columns
        return [
            draft(value, key, kind, bytes_max)
            for value, key in zip(values, keys or repeat(None, len(values)), strict=True)
        ]

    def _numbered(self, lane: TopicLane, partition: int) -> Partition:
        """Return the partition that a caller names; another process may have added it."""
        if (whole(partition) or 0) >= lane.stored.settings.partitions:
            self._look_at(lane)
        return check_partition(partition, lane.stored.settings.partitions)

    def _routed(
        self, lane: TopicLane, drafts: Sequence[Draft], terms: Terms
    ) -> Mapping[Partition, Sequence[int]]:
        if terms.partition is not None:
            number = self._numbered(lane, terms.partition)
            return {number: range(len(drafts))} if drafts else {}
        if drafts and lane.partitions == 1:
            return {_FIRST: range(len(drafts))}
        if isinstance(drafts, EventDrafts) and terms.expected_offset is None:
            routed = drafts.route(lane.partitions, self._record_bytes_max)
            if routed is not None:
                return routed
        return terms.route(_keys_of(drafts), lane.partitions, lane.turn)

    def _routed_before(
        self, lane: TopicLane, drafts: Sequence[Draft], terms: Terms
    ) -> Mapping[Partition, Sequence[int]] | None:
        """If this repeats a write made before partitions were added, return where that went."""
        if terms.partition is not None:
            return None
        for count in lane.earlier:
            routed = terms.route(_keys_of(drafts), count, lane.turn)
            for number, indices in routed.items():
                request = self._request(lane, _chosen(drafts, indices), indices, terms)
                if self._is_repeat(lane, number, request, terms):
                    return routed
        return None

    def _is_repeat(
        self, lane: TopicLane, partition: Partition, request: AppendRequest, terms: Terms
    ) -> bool:
        """Whether the partition has stored this write, or its first value. Stores nothing."""
        if request.producer is not None:
            # Sequences rise, so repeated values come first.
            first = request.drafts[:1], request.sequences[:1]
            request = request._replace(drafts=first[0], sequences=first[1])
        # A repeat is recognised before the expected offset is checked; no record gets INT64_MAX.
        probe = request._replace(expected_offset=INT64_MAX)
        try:
            self._store.append(lane.stored, partition, probe, self._default, terms.timeout_s)
        except ConflictError as error:
            return request.producer is None and "expected_offset" not in error.fields
        return True

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


def _keys_of(drafts: Sequence[Draft]) -> Sequence[str | None]:
    if isinstance(drafts, EventColumns | EventDrafts):
        return drafts.keys
    return [each.key for each in drafts]


def _chosen(drafts: Sequence[Draft], indices: Sequence[int]) -> Sequence[Draft]:
    if len(indices) == len(drafts):
        return drafts
    if isinstance(drafts, EventDrafts) or (isinstance(drafts, EventColumns) and len(indices) > 1):
        return drafts.chosen(indices)
    return [drafts[index] for index in indices]


def check_values(
    values: Iterable[Value], keys: Sequence[str | None] | None
) -> tuple[Sequence[Value], Sequence[str | None] | None]:
    """Return the values and their keys as lists; InvalidError if the counts differ."""
    each: Sequence[Value] = (
        values if isinstance(values, EventRows) else check_items("values", values)
    )
    own = None if keys is None else check_items("keys", keys)
    if own is not None and len(own) != len(each):
        raise InvalidError("give one key for each value", keys=len(own), values=len(each))
    return each, own
