"""Bugs to plant in processes that are killed, and which of the slices has to notice."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from strandline.log import Log
from strandline.stores.files.cursors import Cursors
from strandline.stores.files.identity_window import IdentityWindow
from strandline.stores.files.partition_lock import PartitionLock
from strandline.stores.files.partition_writer import PartitionWriter
from strandline.stores.files.succession import _Succession
from strandline.stores.files.syncing import Syncing
from strandline.stores.sqlite.appends import AppendBracket, AppendFlusher, Changes
from strandline.stores.sqlite.consuming import SqliteConsumers
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.outbox import Outbox
from strandline.stores.sqlite.store_lock import StoreLock
from strandline.stores.sqlite.trimming import Trimming
from strandline.subscriptions.consumer import Consumer
from strandline.subscriptions.cursor import Cursor
from strandline.subscriptions.subscription import Subscription
from strandline.triggers.dispatch import Dispatch
from strandline.triggers.handled_keys import HandledKeys
from strandline.triggers.settling import Settling
from tests.model.planted_bugs import Bug


@dataclass(frozen=True)
class Planted(Bug):
    """A bug, and who catches it on which kind of log."""

    scheme: str = "sqlite"
    caught_by: str = "kills"


@dataclass(frozen=True)
class FilePlanted(Planted):
    """A bug of the file log."""

    scheme: str = "file"


PROCESS_BUGS: list[Planted] = [
    Planted(
        "an append is acknowledged though every fourth is not stored",
        AppendFlusher,
        "flush",
        'connection.execute("COMMIT")',
        'connection.execute("ROLLBACK" if not epochs.start % 4 else "COMMIT")',
    ),
    Planted(
        "an append is stored in two transactions",
        Changes,
        "store",
        "connection.executemany(_INSERT, records)",
        "connection.executemany(_INSERT, records[:1]); "
        'connection.execute("COMMIT"); connection.execute("BEGIN IMMEDIATE"); '
        "__import__('time').sleep(0.001); connection.executemany(_INSERT, records[1:])",
    ),
    Planted(
        "identities are not stored",
        Changes,
        "store",
        "identities.store()",
        "pass",
    ),
    Planted(
        "a trim takes one more than asked",
        Trimming,
        "trim",
        "row.low = low",
        "row.low = min(row.high, low + 1)",
    ),
    Planted(
        "a drop is acknowledged and forgotten",
        Log,
        "drop_topic",
        "self._topics.drop(connection, entry)",
        "entry.slots",
    ),
    Planted(
        "a cursor is acknowledged and not stored",
        SqliteConsumers,
        "ack",
        "self._consumers.put(",
        "(lambda *_: None)(",
    ),
    Planted(
        "another process's appends go unnoticed",
        AppendBracket,
        "_begin_at_once",
        "if database.try_begin() and lock.is_unbroken():",
        "if database.try_begin():",
        caught_by="fights",
    ),
    Planted(
        "nobody says who holds the lock",
        StoreLock,
        "_holder",
        "text = self._io.pread(fd, _PID_BYTES, 0).strip()",
        "text = b''",
        caught_by="holder",
    ),
    Planted(
        "the lock excludes nobody",
        StoreLock,
        "_lock_file",
        "if self._io.try_lock(fd):",
        "if self._io.try_lock(fd) or True:",
        caught_by="holder",
    ),
    Planted(
        "nothing is synced",
        Database,
        "sync",
        "self.io.sync(fd)",
        "self.io.stat(fd)",
        caught_by="witness",
    ),
    Planted(
        "a failed sync is taken for a good one",
        Database,
        "sync",
        "self.lock.suspect()\n        raise",
        "self.lock.suspect()\n        return",
        caught_by="faults",
    ),
    Planted(
        "events are committed before the rows",
        Outbox,
        "join",
        "changes.store(connection, due)",
        "changes.store(connection, due); connection.take_back(); connection.execute('COMMIT'); "
        "connection.execute('BEGIN IMMEDIATE'); connection.lend()",
        caught_by="outboxes",
    ),
    Planted(
        "rows are committed before the events",
        Outbox,
        "join",
        "block.check()",
        "block.check(); connection = block.connection; connection.take_back(); "
        "connection.execute('COMMIT'); connection.execute('BEGIN IMMEDIATE'); connection.lend()",
        caught_by="outboxes",
    ),
    Planted(
        "a block goes on from the head of an earlier one",
        Outbox,
        "join",
        "AppendDelta(Heads(database))",
        "AppendDelta(self.__dict__.setdefault('kept', Heads(database)))",
        caught_by="outboxes",
    ),
    Planted(
        "an append goes on from the head before a block",
        AppendBracket,
        "_begin",
        "self._heads.version = None",
        "pass",
        caught_by="outboxes",
    ),
    Planted(
        "a block is committed when it raises",
        Outbox,
        "_roll_back",
        "block.drop()",
        "block.end(); block.connection.execute('COMMIT')",
        caught_by="outboxes",
    ),
    Planted(
        "a block lets the lock go before its commit",
        Outbox,
        "_enter",
        "database.lock.block_thread = block.thread",
        "database.lock.block_thread = block.thread; block.connection.take_back(); "
        "block.connection.execute('COMMIT'); block.connection.execute('BEGIN DEFERRED'); "
        "block.connection.lend(); database.io.unlock(database.lock._fd)",
        caught_by="outboxes",
    ),
    Planted(
        "a consumer acks what it delivers",
        Consumer,
        "_deliver",
        "with self._lock:",
        "self._log.ack(self._topic, self._name, record.partition, record.offset + 1)\n"
        "    with self._lock:",
        caught_by="consumers",
    ),
    Planted(
        "a trigger acks before its function was called",
        Dispatch,
        "_call",
        "await self._call_function(entry)",
        "await asyncio.to_thread(entry.source.consumer.ack, entry.carrier)\n"
        "        await self._call_function(entry)",
        caught_by="triggers",
    ),
    Planted(
        "a trigger forgets at each restart what it has handled",
        HandledKeys,
        "_load",
        "self._log.read(self._notes, 0, low)",
        "()",
        caught_by="triggers",
    ),
    Planted(
        "a trigger remembers a key after the ack",
        Settling,
        "settle",
        "self._store_keys(batch)",
        "pass",
        caught_by="triggers",
    ),
    Planted(
        "a trigger lets the records of a key overtake each other",
        Dispatch,
        "_lanes_of",
        "record.partition, record.key",
        "record.offset",
        caught_by="triggers",
    ),
    Planted(
        "a trigger loses the count of a retry",
        Dispatch,
        "_take",
        "entry.count = delivery.count",
        "pass",
        caught_by="triggers",
    ),
    Planted(
        "a trigger acks what failed",
        Dispatch,
        "_fail",
        "Verdict.FAILED",
        "Verdict.HANDLED",
        caught_by="triggers",
    ),
    Planted(
        "a cancelled reader loses its record",
        Subscription,
        "arrived",
        "await _let_others_run()",
        "self._take(); await _let_others_run()",
        caught_by="joins",
    ),
    Planted(
        "a page is read twice",
        Cursor,
        "deliver",
        "self.next = Offset(offset + 1)",
        "self.next = Offset(offset + (offset % 50 != 7))",
        caught_by="joins",
    ),
    FilePlanted(
        "file: nobody looks at the fence after a write",
        PartitionWriter,
        "_write",
        "FENCE_AT) != NO_FENCE:",
        "FENCE_AT) != NO_FENCE and False:",
        caught_by="take-overs",
    ),
    FilePlanted(
        "file: the old owner is fenced after its end was read",
        _Succession,
        "run",
        "self._fence(range(old.epoch.number if old is not None else 0, number), number)",
        "pass",
        caught_by="a writer who goes on",
    ),
    FilePlanted(
        "file: two may claim one epoch",
        _Succession,
        "_claim",
        '"create_new"',
        '"create"',
        caught_by="two takers",
    ),
    FilePlanted(
        "file: who finds another lock file goes on in the same epoch",
        PartitionWriter,
        "_is_current",
        "if self._lock.identity != tenure.manifest.lock:",
        "if False:",
        caught_by="take-overs",
    ),
    FilePlanted(
        "file: the lock excludes nobody",
        PartitionLock,
        "_try",
        "if not self._io.try_lock(self._file.fd):",
        "if not self._io.try_lock(self._file.fd) and False:",
        caught_by="holder",
    ),
    FilePlanted(
        "file: nobody says who holds the partition",
        PartitionLock,
        "holder",
        "text = self._io.pread(holder.fd, 20, 0).strip()",
        "text = b''",
        caught_by="holder",
    ),
    FilePlanted(
        "file: another process's appends go unnoticed",
        PartitionWriter,
        "_is_current",
        "return self._take_over(tenure, raw)",
        "return True",
        caught_by="fights",
    ),
    FilePlanted(
        "file: an owner who was robbed takes turns with the robber",
        PartitionWriter,
        "_prepare",
        "if is_owner and self._tenure is not None:",
        "if False:",
        caught_by="a robbed owner",
    ),
    FilePlanted(
        "file: identities are not read back",
        IdentityWindow,
        "_read",
        "_remember(self._identities, terms, frame)",
        "pass",
    ),
    FilePlanted(
        "file: a cursor is acknowledged and not stored",
        Cursors,
        "put",
        "checked.store(",
        "(lambda *_, **__: None)(",
    ),
    FilePlanted(
        "file: nothing is synced",
        Syncing,
        "_sync",
        "self._io.sync(segment.fd)",
        "pass",
        caught_by="witness",
    ),
    FilePlanted(
        "file: a failed sync is taken for a good one",
        Syncing,
        "_sync",
        "is_failed=True)\n        raise",
        "is_failed=False)",
        caught_by="faults",
    ),
]


@contextlib.contextmanager
def planted(title: str | None) -> Iterator[None]:
    """Have the bug of this title in the code for as long as the block runs; None is none."""
    if title is None:
        yield
        return
    with next(bug for bug in PROCESS_BUGS if bug.title == title).planted():
        yield
