"""Hints of what other processes write: by LISTEN, and by polling where that fails."""

import contextlib
import re
import select  # noqa: TID251 - It waits for sockets, and opens nothing.
import socket
import threading
from collections.abc import Collection
from typing import Final, NamedTuple

import psycopg
from psycopg import sql

from strandline.log.watches import Watches
from strandline.stores.postgres.database import Connection, PostgresDatabase
from strandline.stores.postgres.partition_head import load_partition
from strandline.stores.postgres.topics import PostgresTopic
from strandline.values import StrandlineError
from strandline.writes.standby import Standby

#: A notification can get lost with its connection.
_POLL_S: Final = 1.0
#: A pooler passes no notification on: right after news it is asked so soon, then ever later.
_POLL_MIN_S: Final = 0.01
#: A payload holds 8,000 bytes.
_SLOTS_MAX: Final = 190
#: A slot and where it ends, which versions before this one left out.
_NAMED_END: Final = re.compile("([0-9]{1,19})(?::([0-9]{1,19}))?")
_ENDS: Final = "SELECT slot, high FROM {schema}.partitions WHERE slot = ANY(%s)"
#: A notification is a transaction, too, of which nothing has to be on disk.
_NOTIFY: Final = "SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, %s)"


class WatchedEnd(NamedTuple):
    """A partition's slot, and which of its ends is watched."""

    slot: int
    durable_only: bool


class PostgresWatches(Watches[WatchedEnd, PostgresTopic]):
    """The watches of a log, and the notifications that it sends to those of others."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(
            *(database.clock, _place, self._end_of),
            lambda: PostgresChanges(database, self._announced),
        )
        self._database = database
        #: The ends that notifications had, until each is passed on.
        self._announced: dict[WatchedEnd, int] = {}
        self._pending_lock = threading.Lock()
        #: Where each partition ends; 0 for one that is gone.
        self._pending: dict[int, int] = {}
        self._sending = Standby("strandline-notify", self._send)

    def notify_written(self, slot: int, end: int, *, others: bool = True) -> None:
        """Pass on that this process has committed up to `end`; see EndListener."""
        if self._partitions:
            for durable_only in (False, True):
                self.notify(WatchedEnd(slot, durable_only), end)
        if not others:
            return
        with self._pending_lock:
            is_first = not self._pending
            self._pending[slot] = max(end, self._pending.get(slot, 0))
        if is_first:
            self._sending.wake()

    def notify_slots_dropped(self, slots: Collection[int]) -> None:
        """Pass on that a topic was dropped."""
        self.notify_dropped([WatchedEnd(slot, only) for slot in slots for only in (False, True)])
        with self._pending_lock:
            self._pending.update(dict.fromkeys(slots, 0))
        self._sending.wake()

    def close(self) -> None:
        super().close()
        self._sending.close()

    def _send(self) -> None:
        """Notify other processes, outside of any transaction: inside, NOTIFY orders commits."""
        while True:
            with self._pending_lock:
                count = min(len(self._pending), _SLOTS_MAX)
                ends = [self._pending.popitem() for _ in range(count)]
            if not ends:
                return
            text = ",".join(f"{slot}:{end}" for slot, end in ends)
            # A process that misses it polls.
            with contextlib.suppress(StrandlineError), self._database.connection() as connection:
                connection.execute(_NOTIFY, (self._database.channel, text))

    def _end_of(self, place: WatchedEnd) -> int | None:
        # What is committed after it is announced after it.
        if (announced := self._announced.pop(place, 0)) > 0:
            return announced
        with self._database.connection() as connection:
            row = load_partition(connection, self._database, place.slot)
        return None if row is None else row.high


def _place(topic: PostgresTopic, partition: int, durable_only: bool) -> WatchedEnd:
    return WatchedEnd(topic.slots[partition], durable_only)


class PostgresChanges:
    """Implements ChangeSource: listens on its own connection."""

    is_for_readers = False

    def __init__(self, database: PostgresDatabase, announced: dict[WatchedEnd, int]) -> None:
        self._database = database
        self._announced = announced
        self._places: frozenset[WatchedEnd] = frozenset()
        #: Where partitions ended when they were last asked for.
        self._ends: dict[int, int] = {}
        self._pause_s = _POLL_S
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._connection: Connection | None = None
        self._listen()

    def add(self, place: WatchedEnd, /) -> None:
        # Left from when it was watched before.
        self._announced.pop(place, None)
        self._places |= {place}

    def remove(self, place: WatchedEnd, /) -> None:
        self._places -= {place}

    def wait(self, timeout_s: float | None = None, /) -> Collection[WatchedEnd]:
        pause_s = self._pause_s if self._database.is_pooled else _POLL_S
        limit_s = pause_s if timeout_s is None else min(timeout_s, pause_s)
        connection = self._connection
        sockets = [self._woken.fileno()]
        if connection is not None:
            sockets.append(connection.fileno())
        ready, _, _ = select.select(sockets, (), (), limit_s)
        if self._woken.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                self._woken.recv(4096)
            return ()
        if connection is None:
            self._listen()
        if not ready:
            self._pause_s = min(2 * pause_s, _POLL_S)
            return self._changed() if limit_s >= pause_s else ()
        assert connection is not None
        return self._received(connection)

    def _changed(self) -> Collection[WatchedEnd]:
        """Return the partitions that end elsewhere than at the last look, or are gone."""
        places = self._places
        slots = list({place.slot for place in places})
        try:
            with self._database.connection() as connection:
                rows = connection.execute(self._database.sql(_ENDS), (slots,)).fetchall()
        except StrandlineError:
            return places
        before, self._ends = self._ends, {int(slot): int(high) for slot, high in rows}
        return [
            place
            for place in places
            if place.slot not in self._ends or self._ends[place.slot] != before.get(place.slot)
        ]

    def _received(self, connection: Connection) -> Collection[WatchedEnd]:
        try:
            notes = list(connection.notifies(timeout=0))
        except psycopg.Error:
            self._disconnect()
            return self._places
        ends: dict[int, int] = {}
        for each in (each for note in notes for each in note.payload.split(",")):
            named = _NAMED_END.fullmatch(each)
            if named is None:
                # Another version may have another format.
                return self._places
            slot, end = int(named[1]), int(named[2] or 0)
            ends[slot] = max(end, ends.get(slot, 0))
        found = [place for place in self._places if place.slot in ends]
        self._announced.update((place, ends[place.slot]) for place in found)
        return found

    def found(self) -> None:
        self._pause_s = _POLL_MIN_S

    def wake(self) -> None:
        with contextlib.suppress(OSError):
            self._waker.send(b"w")

    def close(self) -> None:
        self._disconnect()
        self._woken.close()
        self._waker.close()

    def _listen(self) -> None:
        if self._database.is_pooled:
            return
        # Until it succeeds, the partitions are polled.
        with contextlib.suppress(StrandlineError, psycopg.Error):
            self._connection = connection = self._database.connect()
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._database.channel)))
            # An append that is under way holds it, for as long as that takes.
            connection.execute("SELECT pg_advisory_lock_shared(%s)", (self._database.listening,))
            return
        self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()
