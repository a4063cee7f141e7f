"""Appends on their way to the coordinators, one for each partition."""

import contextlib
import itertools
import threading
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

from strandline.log.draft import Draft, draft
from strandline.log.draft_columns import COLUMNS_MIN, EventColumns
from strandline.log.identities import Identities
from strandline.log.loops import is_on_loop
from strandline.log.results import Value
from strandline.log.terms import Terms, owner
from strandline.stores.files.appends import Append, Frozen, Head, Placed
from strandline.stores.files.file_errors import unavailable
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.partition_writer import FencedError, PartitionWriter, WritingSettings
from strandline.stores.files.receipts import FileReceipt, FileReceipts, Part, handed_back
from strandline.stores.files.syncing import Telling
from strandline.stores.files.topics import TopicEntry
from strandline.values import (
    Durability,
    FailedError,
    Partition,
    UnavailableError,
    UnknownError,
    ValueKind,
)
from strandline.writes import Channel, Coordinator, Receipt, Settings

_CHANNEL = "appends"
_FIRST = Partition(0)
_NONE: tuple[int, ...] = ()
# What makes a named tuple by name is slow, and one is made for each append.
_new: Any = tuple.__new__
_, _WRITTEN, _DURABLE = Durability
_EVENT = ValueKind.EVENT


class Lane:
    """The way into one partition."""

    def __init__(self, files: PartitionFiles, settings: WritingSettings, tell: Telling) -> None:
        self.store = PartitionWriter(files, settings, tell)
        self._coordinator: Coordinator[Append, Placed, Frozen, None, None, Head] = Coordinator(
            Settings(bracket_timeout_s=settings.lock_timeout_s),
            [_CHANNEL],
            context=Head(files.place.clock, files.place.kind, None, _nothing),
            snapshot=None,
            delta=self.store.new_delta,
            flusher=self.store,
            bracket=self.store,
            clock=files.place.clock,
        )
        self._coordinator.start()
        self.channel: Channel[Append, Placed] = self._coordinator.channel(_CHANNEL)

    def sync(self) -> None:
        """Return once everything written so far, by any process, is durable."""
        self.channel.flush(durable=True).wait(_DURABLE)

    def close(self) -> None:
        """Finish what was accepted, and take no more."""
        # Whoever had a part in a failure was told.
        with contextlib.suppress(FailedError):
            self._coordinator.stop(durable=False)
        self.store.close()


class TopicWriter:
    """Checks, routes and writes the values of one topic."""

    def __init__(
        self, entry: TopicEntry, settings: WritingSettings, record_bytes_max: int, tell: Telling
    ) -> None:
        self.entry = entry
        self._settings = settings
        self._record_bytes_max = record_bytes_max
        self._tell = tell
        self._tenant = entry.topic.tenant
        self._kind = entry.settings.value_kind
        self._partitions = entry.settings.partitions
        self._turns = itertools.count()
        self._lock = threading.Lock()
        self._lanes: dict[int, Lane] = {}

    def append(self, value: Value, key: str | None, terms: Terms) -> FileReceipt:
        """Append one value."""
        drafted = draft(value, key, self._kind, self._record_bytes_max)
        if terms.is_plain and self._partitions == 1:
            number, tenant, sequences = _FIRST, self._tenant, _NONE
            level = _WRITTEN if terms.durability is None else terms.durability
        else:
            number = terms.route_one(drafted.key, self._partitions, self._turn)
            tenant = owner(self.entry.topic, terms.tenant)
            level = terms.level(_DURABLE)
            sequences = _NONE if terms.sequence is None else (terms.sequence,)
        lane = self._lanes.get(number) or self.lane(number)
        write = _new(Append, ((drafted,), tenant, terms, sequences))
        outcome = self._write(lane, write, level, terms.timeout_s, value)
        return FileReceipt(outcome, number, level, value)

    def append_many(
        self,
        values: Sequence[Value],
        keys: Sequence[str | None] | None,
        terms: Terms,
        offered: object,
    ) -> FileReceipts:
        """Append each value as a record of its own."""
        terms.check_count(len(values))
        tenant, level = owner(self.entry.topic, terms.tenant), terms.level(_DURABLE)
        drafts = self._drafts(values, keys)
        routed = self._routed(drafts, terms)
        parts: list[Part] = []
        for number, indices in routed.items():
            write = self._part(drafts, indices, tenant, terms)
            try:
                outcome = self._write(self.lane(number), write, level, terms.timeout_s, offered)
            except UnavailableError as error:
                stored = {index for part in parts for index in part.indices}
                if stored:
                    error.write = [
                        value for index, value in enumerate(values) if index not in stored
                    ]
                raise
            parts.append(Part(number, indices, outcome))
        return FileReceipts(len(values), parts, level, offered)

    def lane(self, partition: int) -> Lane:
        """Return the way into a partition."""
        with self._lock:
            lane = self._lanes.get(partition)
            if lane is None:
                files = self.entry.files(partition)
                try:
                    lane = Lane(files, self._settings, self._tell)
                except OSError as error:
                    raise unavailable(error, files.place.directory) from error
                self._lanes[partition] = lane
            return lane

    def close(self) -> None:
        """Finish what was accepted, and take no more."""
        for lane in tuple(self._lanes.values()):
            lane.close()

    # --- inside ---

    def _turn(self) -> int:
        return next(self._turns)

    def _drafts(
        self, values: Sequence[Value], keys: Sequence[str | None] | None
    ) -> Sequence[Draft]:
        kind, bytes_max = self._kind, self._record_bytes_max
        if keys is None and len(values) >= COLUMNS_MIN and kind is _EVENT:
            columns = EventColumns.of(values, bytes_max)
            if columns is not None:
                return columns
        return [
            draft(value, key, kind, bytes_max)
            for value, key in zip(values, keys or repeat(None, len(values)), strict=True)
        ]

    def _routed(self, drafts: Sequence[Draft], terms: Terms) -> Mapping[Partition, Sequence[int]]:
        if drafts and (self._partitions == 1 or terms.partition is not None):
            number = terms.route_one(None, self._partitions, self._turn)
            return {number: range(len(drafts))}
        return terms.route([each.key for each in drafts], self._partitions, self._turn)

    def _part(
        self, drafts: Sequence[Draft], indices: Sequence[int], tenant: object, terms: Terms
    ) -> Append:
        chosen = drafts if len(indices) == len(drafts) else [drafts[index] for index in indices]
        first = terms.sequence
        sequences = () if first is None else [first + index for index in indices]
        return Append(chosen, tenant, terms, sequences)  # type: ignore[arg-type]

    def _write(
        self,
        lane: Lane,
        write: Append,
        level: Durability,
        timeout_s: float | None,
        offered: object,
    ) -> Receipt[Placed]:
        try:
            if is_on_loop():
                accept = lane.channel.hand_over if level is _DURABLE else lane.channel.try_write
                return accept(write, timeout_s)
            return lane.channel.write(write, level if level is _DURABLE else _WRITTEN, timeout_s)
        except UnavailableError as error:
            raise handed_back(error, offered) from error.__cause__
        except FailedError as error:
            # Not stored, because an earlier write was fenced: whoever shares goes on anew.
            if not isinstance(error.cause, FencedError) or isinstance(error, UnknownError):
                raise
            if self._settings.is_exclusive:
                raise
            return self._write(self._renewed(lane), write, level, timeout_s, offered)

    def _renewed(self, lane: Lane) -> Lane:
        """Return a lane in place of one that was fenced."""
        partition = lane.store.place.partition
        with self._lock:
            if self._lanes.get(partition) is lane:
                del self._lanes[partition]
        lane.close()
        return self.lane(partition)


def _nothing() -> Identities:
    raise AssertionError("a head is taken from the bracket")
