"""Passes appends to the write coordinator."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from strandline.log.store import Outcome, Placement
from strandline.stores.sqlite.appends import (
    AppendBracket,
    AppendFlusher,
    Changes,
    Heads,
    SqliteAppend,
    SqliteDelta,
)
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.durable_marks import DurableMarks
from strandline.stores.sqlite.event_appends import EventAppends
from strandline.stores.sqlite.joined_outcome import JoinedOutcome
from strandline.stores.sqlite.lone_insert import LoneInsert
from strandline.stores.sqlite.outbox import Outbox
from strandline.stores.sqlite.partition_row import PartitionRow
from strandline.stores.sqlite.topics import SqliteTopic
from strandline.values import Durability, FailedError, InvalidError
from strandline.writes import Coordinator, Settings, WriteMetrics
from strandline.writes.bracketed import BracketedChannel

_CHANNEL = "appends"
_WRITTEN: Final = Durability.WRITTEN
_DURABLE: Final = Durability.DURABLE


class Writer:
    """Writes appends, and syncs for all waiters."""

    def __init__(
        self,
        database: Database,
        marks: DurableMarks,
        on_written: Callable[[Mapping[int, PartitionRow]], None],
    ) -> None:
        self._database = database
        self._marks = marks
        self._on_written = on_written
        self._bracket = AppendBracket(database, marks)
        self._lone_insert = LoneInsert(database)
        self.outbox: Final = Outbox(database, self._bracket, marks, on_written)
        self._coordinator: Coordinator[SqliteAppend, Placement, Changes, None, None, Heads] = (
            Coordinator(
                Settings(bracket_timeout_s=database.lock_timeout_s),
                [_CHANNEL],
                context=Heads(database),
                snapshot=None,
                delta=SqliteDelta,
                flusher=AppendFlusher(database, marks, on_written),
                bracket=self._bracket,
                # If threads wait for a sync, they share that sync instead.
                gathers=True,
                clock=database.clock,
            )
        )
        self._coordinator.start()
        channel = self._coordinator.channel(_CHANNEL)
        assert isinstance(channel, BracketedChannel)
        self._channel: BracketedChannel[SqliteAppend, Placement] = channel

    def shortcut(self, topic: SqliteTopic, partition: int) -> EventAppends:
        """Return the fast path for plain events of a partition."""
        parts = self._database, self._marks, self._bracket, self._lone_insert
        return EventAppends(topic, partition, parts, self._channel, self._on_written)

    def append(
        self, write: SqliteAppend, level: Durability, timeout_s: float | None, *, may_wait: bool
    ) -> Outcome:
        """Append; see Store.append."""
        if (block := self.outbox.own_block()) is not None:
            placement, joined = self.outbox.join(block, write)
            block.level = max(block.level, level)
            return JoinedOutcome(placement, joined, self._channel, self._marks.known)
        channel = self._channel
        if not may_wait:
            accept = channel.hand_over if level is _DURABLE else channel.try_write
            return accept(write, timeout_s)
        return channel.write(write, level if level is _DURABLE else _WRITTEN, timeout_s)

    @contextlib.contextmanager
    def transaction(self, outside: sqlite3.Connection | None) -> Iterator[sqlite3.Connection]:
        """See LogTransactions.transaction."""
        with self.outbox.transaction(outside) as block:
            yield block.connection
        if block.level is _DURABLE:
            self.sync()

    def check_no_block(self) -> None:
        """Raise InvalidError inside a transaction of this thread."""
        if self.outbox.own_block() is not None:
            raise InvalidError(
                "this thread is inside a transaction, make this call before or after it"
            )

    def check(self) -> None:
        """Raise what would keep a `sync` that follows from beginning: nothing is done then."""
        self.check_no_block()
        self._coordinator.check_open()

    def sync(self) -> None:
        """Return once everything written so far, by any process, is durable."""
        self.check_no_block()
        self._channel.flush(durable=True).wait(_DURABLE)

    def metrics(self) -> WriteMetrics:
        """Return the coordinator's metrics."""
        return self._coordinator.metrics()

    def close(self) -> None:
        """Finish accepted appends, and take no more."""
        # Every write that was part of a failure has received the error.
        try:
            with contextlib.suppress(FailedError):
                self._coordinator.stop(durable=False)
        finally:
            self._bracket.close()
            self._marks.settle()
