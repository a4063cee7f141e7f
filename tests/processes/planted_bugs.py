"""Bugs to plant in processes that are killed, and which slice has to detect them."""

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

from strandline.groups import Membership
from strandline.log.cursors import ConsumerCursors
from strandline.stores.files.identity_window import IdentityWindow
from strandline.stores.files.keys import FileKeys
from strandline.stores.files.partition_lock import PartitionLock
from strandline.stores.files.partition_writer import PartitionWriter
from strandline.stores.files.succession import _Succession
from strandline.stores.files.syncing import Syncing
from strandline.stores.sqlite.appends import AppendBracket, AppendFlusher, Changes
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.outbox import Outbox
from strandline.stores.sqlite.store import SqliteStore
from strandline.stores.sqlite.store_lock import StoreLock
from strandline.stores.sqlite.trimming import Trimming
from strandline.subscriptions.counting import Counting
from strandline.subscriptions.cursor import Cursor
from strandline.subscriptions.deliveries import Deliveries
from strandline.subscriptions.delivery_counts import DeliveryCounts
from strandline.subscriptions.outstanding import Attempts
from strandline.subscriptions.subscription import Subscription
from strandline.triggers import subjects
from strandline.triggers.calls import Calls
from strandline.triggers.dispatch import Dispatch
from strandline.triggers.gate import Gate
from strandline.triggers.handled_keys import HandledKeys
from strandline.triggers.settling import Settling
from tests.planting import Bug


class Planted(NamedTuple):
    """A bug, and who catches it on which kind of log."""

    bug: Bug
    scheme: str
    caught_by: str

    def __str__(self) -> str:
        return self.title

    @property
    def title(self) -> str:
        """The name of the bug."""
        return self.bug.title


def _sqlite(
    title: str, owner: type | ModuleType, name: str, old: str, new: str, *, caught_by: str = "kills"
) -> Planted:
    return Planted(Bug(title, owner, name, old, new), "sqlite", caught_by)


def _file(
    title: str, owner: type | ModuleType, name: str, old: str, new: str, *, caught_by: str = "kills"
) -> Planted:
    return Planted(Bug(f"file: {title}", owner, name, old, new), "file", caught_by)


PROCESS_BUGS = [
    _sqlite(
        "only the first outstanding record is counted",
        DeliveryCounts,
        "store",
        "kept = self._kept(partition)",
        "note['counts'] = [each for each in note['counts'] if each[0] == floor]\n"
        "note['charges'] = [each for each in note['charges'] if each[0] == floor]\n"
        "note.pop('runs', None)\n"
        "_",
        caught_by="poison",
    ),
    _sqlite(
        "a suspect is accused of nothing",
        Counting,
        "begin_alone",
        "_.begin(_, alone=True)",
        "outstanding.begin(record.offset, alone=False)",
        caught_by="poison",
    ),
    _sqlite(
        "a suspect is handled beside others",
        Gate,
        "may_begin",
        "if alone: ...",
        "return True",
        caught_by="poison",
    ),
    _sqlite(
        "a consumer dead-letters what was delivered often beside others",
        Attempts,
        "is_too_often",
        "return _",
        "return self.count >= deliveries_max",
        caught_by="poison in a batch",
    ),
    _sqlite(
        "a consumer delivers a suspect beside others",
        Counting,
        "check_alone",
        "with self.lock: ...",
        "pass",
        caught_by="poison in a batch",
    ),
    _sqlite(
        "an append is acknowledged though every fourth is not stored",
        AppendFlusher,
        "_store",
        "_.execute('COMMIT')",
        "connection.execute("
        "'COMMIT' if all(head.high % 4 for head in heads.values()) else 'ROLLBACK')",
    ),
    _sqlite(
        "an append is stored in two transactions",
        Changes,
        "store",
        "_insert(connection, records)",
        "import time\n"
        "_insert(connection, records[:1])\n"
        "connection.execute('COMMIT')\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        "time.sleep(0.001)\n"
        "_insert(connection, records[1:])",
    ),
    _sqlite(
        "identities are not stored",
        Changes,
        "store",
        "identities.store(...)",
        "pass",
    ),
    _sqlite(
        "a trim takes one more than asked",
        Trimming,
        "trim",
        "row.low = low",
        "row.low = min(row.high, low + 1)",
    ),
    _sqlite(
        "a drop is acknowledged and forgotten",
        SqliteStore,
        "drop_topic",
        "self._topics.drop(...)",
        "pass",
    ),
    _sqlite(
        "a cursor is acknowledged and not stored",
        SqliteStore,
        "put_key",
        "put_key(...)",
        "pass",
    ),
    _sqlite(
        "another process's appends go unnoticed",
        AppendBracket,
        "begin_unbroken",
        "_.is_unbroken()",
        "True",
        caught_by="contention",
    ),
    _sqlite(
        "the holder of the lock is not named",
        StoreLock,
        "_holder",
        "_.pread(...)",
        "b''",
        caught_by="holder",
    ),
    _sqlite(
        "the lock excludes no process",
        StoreLock,
        "_lock_file",
        "_.try_lock(...)",
        "_ or True",
        caught_by="holder",
    ),
    _sqlite(
        "nothing is synced",
        Database,
        "sync",
        "_.sync(fd)",
        "pass",
        caught_by="strace",
    ),
    _sqlite(
        "a failed sync is taken for a good one",
        Database,
        "sync",
        "raise",
        "return",
        caught_by="faults",
    ),
    _sqlite(
        "events are committed before the rows",
        Outbox,
        "join",
        "changes.store(...)",
        "_; "
        "connection.take_back(); "
        "connection.execute('COMMIT'); "
        "connection.execute('BEGIN IMMEDIATE'); "
        "connection.lend()",
        caught_by="outboxes",
    ),
    _sqlite(
        "rows are committed before the events",
        Outbox,
        "join",
        "block.check()",
        "_; "
        "connection = block.connection; "
        "connection.take_back(); "
        "connection.execute('COMMIT'); "
        "connection.execute('BEGIN IMMEDIATE'); "
        "connection.lend()",
        caught_by="outboxes",
    ),
    _sqlite(
        "a block continues from the head of an earlier one",
        Outbox,
        "join",
        "Heads(...)",
        "self.__dict__.setdefault('kept', _)",
        caught_by="outboxes",
    ),
    _sqlite(
        "an append continues from the head before a block",
        AppendBracket,
        "_begin",
        "self._heads.version = None",
        "pass",
        caught_by="outboxes",
    ),
    _sqlite(
        "a block is committed when it raises",
        Outbox,
        "_roll_back",
        "block.drop()",
        "block.end(); block.connection.execute('COMMIT')",
        caught_by="outboxes",
    ),
    _sqlite(
        "a block lets the lock go before its commit",
        Outbox,
        "_enter",
        "_.block_thread = block.over.thread",
        "_; "
        "block.connection.take_back(); "
        "block.connection.execute('COMMIT'); "
        "block.connection.execute('BEGIN DEFERRED'); "
        "block.connection.lend(); "
        "database.io.unlock(database.lock._fd)",
        caught_by="outboxes",
    ),
    _sqlite(
        "a consumer acks what it delivers",
        Deliveries,
        "_deliver",
        "with self._lock: ...",
        "self._log.ack(self._topic, 'billing', record.partition, record.offset + 1); _",
        caught_by="consumers",
    ),
    _sqlite(
        "a group fences no cursor",
        ConsumerCursors,
        "_move",
        "_check_generation(...)",
        "None",
        caught_by="groups",
    ),
    _sqlite(
        "a member is never sure to have lost its lease",
        Membership,
        "is_valid",
        "return _",
        "return True",
        caught_by="groups",
    ),
    _sqlite(
        "a trigger acks before its function was called",
        Calls,
        "_work",
        "self._wake_worker()",
        "_; entry.source.consumer.ack(entry.carrier)",
        caught_by="triggers",
    ),
    _sqlite(
        "a trigger forgets at each restart what it has handled",
        HandledKeys,
        "catch_up",
        "self._log.read(...)",
        "()",
        caught_by="triggers",
    ),
    _sqlite(
        "a trigger remembers a key after the ack",
        Settling,
        "settle",
        "self._store_keys(...)",
        "pass",
        caught_by="triggers",
    ),
    _sqlite(
        "a trigger lets the records of a key overtake each other",
        subjects,
        "lanes_of",
        "(_, record.partition, record.key)",
        "('key', record.offset)",
        caught_by="triggers",
    ),
    _sqlite(
        "a trigger loses the count of a retry",
        Dispatch,
        "_enter",
        "delayed.delivered = entry.delivered",
        "pass",
        caught_by="triggers",
    ),
    _sqlite(
        "a trigger acks what failed",
        Dispatch,
        "_fail",
        "Verdict.FAILED",
        "Verdict.HANDLED",
        caught_by="triggers",
    ),
    _sqlite(
        "a cancelled reader loses its record",
        Subscription,
        "_next_on_loop",
        "await _let_others_run()",
        "self._take(); _",
        caught_by="joins",
    ),
    _sqlite(
        "a page is read twice",
        Cursor,
        "deliver",
        "offset + 1",
        "offset + (offset % 50 != 7)",
        caught_by="joins",
    ),
    _file(
        "the fence is not checked after a write",
        PartitionWriter,
        "flush",
        "_ != NO_FENCE",
        "_ and False",
        caught_by="take-overs",
    ),
    _file(
        "the old owner is fenced after its end was read",
        _Succession,
        "run",
        "self._fence(...)",
        "pass",
        caught_by="a writer who continues",
    ),
    _file(
        "two may claim one epoch",
        _Succession,
        "_claim",
        "'create_new'",
        "'create'",
        caught_by="two takers",
    ),
    _file(
        "who finds another lock file continues in the same epoch",
        PartitionWriter,
        "_is_current",
        "self._lock.identity != _",
        "False",
        caught_by="take-overs",
    ),
    _file(
        "the lock excludes no process",
        PartitionLock,
        "attempt",
        "_.try_lock(...)",
        "_ or True",
        caught_by="holder",
    ),
    _file(
        "the holder of the partition is not named",
        PartitionLock,
        "holder",
        "_.pread(...)",
        "b''",
        caught_by="holder",
    ),
    _file(
        "another process's appends go unnoticed",
        PartitionWriter,
        "_is_current",
        "self._take_over(...)",
        "True",
        caught_by="contention",
    ),
    _file(
        "a fenced owner takes turns with the process that took over",
        PartitionWriter,
        "_prepare",
        "is_owner and self._owned is not None",
        "False",
        caught_by="a fenced owner",
    ),
    _file(
        "identities are not read back",
        IdentityWindow,
        "_read",
        "_cache(...)",
        "pass",
    ),
    _file(
        "a cursor is acknowledged and not stored",
        FileKeys,
        "_place",
        "checked.place(...)",
        "pass",
    ),
    _file(
        "nothing is synced",
        Syncing,
        "_sync",
        "_.sync(...)",
        "pass",
        caught_by="strace",
    ),
    _file(
        "a failed sync is taken for a good one",
        Syncing,
        "_sync",
        "self._note(segment, manifest, durable, is_failed=True)",
        "return self._note(segment, manifest, durable, is_failed=False)",
        caught_by="faults",
    ),
]


@contextlib.contextmanager
def planted(title: str | None) -> Iterator[None]:
    """Have the bug of this title in the code for as long as the block runs; None is none."""
    if title is None:
        yield
        return
    with next(each for each in PROCESS_BUGS if each.title == title).bug.planted():
        yield
