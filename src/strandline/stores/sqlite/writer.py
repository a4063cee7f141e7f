"""Appends on their way to the coordinator."""

import contextlib
import itertools
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from strandline.log.draft import Draft, draft
from strandline.log.loops import is_on_loop
from strandline.log.results import Value
from strandline.log.terms import Terms, owner
from strandline.stores.sqlite.appends import (
    Append,
    AppendBracket,
    AppendDelta,
    AppendFlusher,
    Changes,
    DroppedError,
    Heads,
    Part,
    Placement,
    Single,
)
from strandline.stores.sqlite.block import Block
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.durable_marks import DurableMarks
from strandline.stores.sqlite.outbox import Outbox
from strandline.stores.sqlite.partition_row import PartitionRow
from strandline.stores.sqlite.receipts import (
    JoinedReceipts,
    SqliteReceipt,
    SqliteReceipts,
    handed_back,
)
from strandline.stores.sqlite.topics import TopicEntry
from strandline.values import Durability, FailedError, InvalidError, UnavailableError
from strandline.writes import Coordinator, Receipt, Settings

_CHANNEL = "appends"
_WRITTEN = Durability.WRITTEN
_DURABLE = Durability.DURABLE

Write: TypeAlias = "Append | Single"

Finding = Callable[[bool], TopicEntry]
"""Returns the topic; True asks for one that is certainly still there."""


class Writer:
    """Checks, routes and writes values; syncs for all who wait."""

    def __init__(
        self,
        database: Database,
        marks: DurableMarks,
        record_bytes_max: int,
        on_written: Callable[[Mapping[int, PartitionRow]], None],
    ) -> None:
        self._database = database
        self._marks = marks
        self._record_bytes_max = record_bytes_max
        self._turns: defaultdict[int, itertools.count[int]] = defaultdict(itertools.count)
        bracket = AppendBracket(database, marks)
        self.outbox = Outbox(database, bracket, marks, on_written)
        self._coordinator: Coordinator[Write, Placement, Changes, None, None, Heads] = Coordinator(
            Settings(bracket_timeout_s=database.lock_timeout_s),
            [_CHANNEL],
            context=Heads(database),
            snapshot=None,
            delta=AppendDelta,
            flusher=AppendFlusher(database, marks, on_written),
            bracket=bracket,
            clock=database.clock,
        )
        self._coordinator.start()
        self._channel = self._coordinator.channel(_CHANNEL)

    def append_one(
        self, entry: TopicEntry, value: Value, key: str | None, terms: Terms
    ) -> SqliteReceipt:
        """Append one value that brings no identity, from a thread that may wait.

        Raises DroppedError if the topic is no longer there.
        """
        level = terms.level(_DURABLE)
        settings = entry.settings
        drafted = draft(value, key, settings.value_kind, self._record_bytes_max)
        turn = self._turns[entry.first_slot].__next__
        write = Single(
            entry,
            terms.route_one(drafted.key, settings.partitions, turn),
            drafted,
            owner(entry.topic, terms.tenant),
            terms.expected_offset,
        )
        if (block := self.outbox.own_block()) is not None:
            return self._join(block, write, 1, level, value)[0]
        try:
            outcome = self._channel.write(
                write, _DURABLE if level is _DURABLE else _WRITTEN, terms.timeout_s
            )
        except UnavailableError as error:
            raise handed_back(error, value) from error.__cause__
        return SqliteReceipt(SqliteReceipts(1, outcome, level, value), 0)

    def append(
        self,
        find: Finding,
        values: Sequence[Value],
        keys: Sequence[str | None],
        terms: Terms,
        offered: object,
    ) -> SqliteReceipts:
        """Append the values to the topic that `find` returns."""
        level = terms.level(_DURABLE)
        terms.check_count(len(values))
        on_loop = is_on_loop()
        write = self._prepare(find(on_loop), values, keys, terms)
        if not values:
            return SqliteReceipts(0, None, level, offered)
        if (block := self.outbox.own_block()) is not None:
            try:
                return self._join(block, write, len(values), level, offered)
            except DroppedError:
                again = self._prepare(find(True), values, keys, terms)
                return self._join(block, again, len(values), level, offered)
        try:
            if on_loop:
                accept = self._channel.hand_over if level is _DURABLE else self._channel.try_write
                outcome = accept(write, terms.timeout_s)
                return SqliteReceipts(len(values), outcome, level, offered)
            try:
                outcome = self._write(write, level, terms)
            except DroppedError:
                again = self._prepare(find(True), values, keys, terms)
                outcome = self._write(again, level, terms)
        except UnavailableError as error:
            raise handed_back(error, offered) from error.__cause__
        placement = outcome.wait()
        if placement.error is not None:
            raise placement.error.with_traceback(None)
        return SqliteReceipts(len(values), outcome, level, offered)

    @contextlib.contextmanager
    def transaction(self, outside: sqlite3.Connection | None) -> Iterator[sqlite3.Connection]:
        """Do what `LogWriter.transaction` says."""
        with self.outbox.transaction(outside) as block:
            yield block.connection
        if block.level is _DURABLE:
            self.sync()

    def check_no_block(self) -> None:
        """Raise InvalidError inside a transaction of this thread."""
        if self.outbox.own_block() is not None:
            raise InvalidError(
                "this thread is in the midst of a transaction, make this call before or after it"
            )

    def sync(self) -> None:
        """Return once everything written so far, by any process, is durable."""
        self.check_no_block()
        self._channel.flush(durable=True).wait(_DURABLE)

    def close(self) -> None:
        """Finish what was accepted, and take no more."""
        # Whoever had a part in a failure was told.
        with contextlib.suppress(FailedError):
            self._coordinator.stop(durable=False)
        self._marks.settle()

    # --- inside ---

    def _join(
        self, block: Block, write: Write, count: int, level: Durability, offered: object
    ) -> JoinedReceipts:
        placement, joined = self.outbox.join(block, write)
        block.level = max(block.level, level)
        return JoinedReceipts(
            count,
            placement,
            joined,
            level,
            offered,
            channel=self._channel,
            known=self._marks.known,
        )

    def _write(self, write: Append, level: Durability, terms: Terms) -> Receipt[Placement]:
        return self._channel.write(write, max(level, _WRITTEN), terms.timeout_s)

    def _prepare(
        self,
        entry: TopicEntry,
        values: Sequence[Value],
        keys: Sequence[str | None],
        terms: Terms,
    ) -> Append:
        tenant = owner(entry.topic, terms.tenant)
        kind, bytes_max = entry.settings.value_kind, self._record_bytes_max
        drafts = [
            draft(value, key, kind, bytes_max) for value, key in zip(values, keys, strict=True)
        ]
        return Append(entry, self._route(entry, drafts, terms), tenant, terms)

    def _route(self, entry: TopicEntry, drafts: list[Draft], terms: Terms) -> list[Part]:
        turn = self._turns[entry.first_slot].__next__
        routed = terms.route([each.key for each in drafts], entry.settings.partitions, turn)
        return [
            Part(partition, indices, [drafts[index] for index in indices])
            for partition, indices in routed.items()
        ]
