"""One partition of a memory log: a list, and a lock."""

import threading
from bisect import bisect_left
from collections.abc import Sequence
from copy import copy
from itertools import zip_longest
from typing import NamedTuple

from strandline.clock import Clock
from strandline.log.chain import Chain
from strandline.log.draft import Draft
from strandline.log.history import Body, History, Piece
from strandline.log.identities import Identities, Original
from strandline.log.local_watch import LocalWatch
from strandline.log.results import Hint
from strandline.log.terms import Terms
from strandline.log.verifying import unproved
from strandline.values import (
    CONSUMER_SILENCE_S,
    ConflictError,
    ConsumerLag,
    Epoch,
    InvalidError,
    Marks,
    Offset,
    Partition,
    ProofHead,
    Segment,
    StrandlineError,
    Tenant,
    Topic,
    TopicSettings,
    TrimmedError,
    TrimReport,
)

_SILENCE_US = CONSUMER_SILENCE_S * 1_000_000


class Entry(NamedTuple):
    """A record as it is kept."""

    offset: Offset
    timestamp_us: int
    key: str | None
    tenant: Tenant | None
    body: Body
    size_bytes: int


class Placed(NamedTuple):
    """Where one value of an append went."""

    offset: Offset
    timestamp_us: int
    is_repeat: bool


class _Cursor(NamedTuple):
    offset: Offset
    seen_at_us: int


class MemoryPartition:
    """The records, identities and cursors of one partition. Thread-safe."""

    def __init__(
        self, topic: Topic, number: Partition, clock: Clock, chain: Chain, *, is_proved: bool
    ) -> None:
        self._topic = topic
        self.number = number
        self._clock = clock
        self._chain = chain
        self._is_proved = is_proved
        self._lock = threading.Lock()
        # Invariant: the entry at index i has the offset _local + i, and _low <= _local.
        self._entries: list[Entry] = []
        # Invariant, in a topic with a proof: the chain's value after each entry, and before all.
        self._values: list[bytes] = []
        self._anchor = chain.origin
        self._low = 0
        self._local = 0
        self._kept_bytes = 0
        self._timestamp_us = 0
        self._identities = Identities()
        self._cursors: dict[tuple[Tenant | None, str], _Cursor] = {}
        self._watches: set[LocalWatch] = set()
        self._end: StrandlineError | None = None
        self.epoch = Epoch(0, clock.new_id(), Offset(0))

    # --- appending ---

    def append(
        self,
        drafts: Sequence[Draft],
        sequences: Sequence[int],
        tenant: Tenant | None,
        terms: Terms,
        settings: TopicSettings,
    ) -> list[Placed]:
        """Add all drafts or none; `sequences` are those of a producer, if there is one."""
        with self._lock:
            self._check_usable()
            now_us = max(self._clock.now_us(), self._timestamp_us)
            self._identities.expire(now_us)
            placed = self._find_repeats(len(drafts), sequences, tenant, terms)
            if not placed:
                self._check_expected(terms.expected_offset)
            fresh = drafts[len(placed) :]
            if not fresh:
                return placed
            start = self._high
            self._add(fresh, now_us, tenant)
            self._remember(start, sequences[len(placed) :], tenant, terms, len(fresh))
            self._retain(settings)
            self._tell()
            return placed + [
                Placed(Offset(start + index), now_us, is_repeat=False)
                for index in range(len(fresh))
            ]

    def _find_repeats(
        self, count: int, sequences: Sequence[int], tenant: Tenant | None, terms: Terms
    ) -> list[Placed]:
        if terms.idempotency_key is not None:
            original = self._identities.find_key(tenant, terms.idempotency_key, count)
            found = [] if original is None else original.each()
        elif terms.producer is not None:
            # Sequences rise, and so whatever is repeated comes first.
            each = [
                self._identities.find_sequence(tenant, terms.producer, number)
                for number in sequences
            ]
            found = [original for original in each if original is not None]
        else:
            found = []
        return [Placed(one.offset, one.timestamp_us, is_repeat=True) for one in found]

    def _check_expected(self, expected: int | None) -> None:
        if expected is not None and expected != self._high:
            raise ConflictError(
                "the partition does not end at the expected offset, read on and try again",
                expected_offset=expected,
                end=self._high,
            )

    def _add(self, drafts: Sequence[Draft], now_us: int, tenant: Tenant | None) -> None:
        start = self._high
        added = [
            Entry(Offset(start + index), now_us, draft.key, tenant, draft.body, draft.size_bytes)
            for index, draft in enumerate(drafts)
        ]
        if self._is_proved:
            value = self._value_before(start)
            for entry in added:
                value = self._chain.link_kept(value, entry)
                self._values.append(value)
        self._entries += added
        self._kept_bytes += sum(draft.size_bytes for draft in drafts)
        self._timestamp_us = now_us

    def _remember(
        self,
        start: Offset,
        sequences: Sequence[int],
        tenant: Tenant | None,
        terms: Terms,
        count: int,
    ) -> None:
        if terms.idempotency_key is not None:
            original = Original(start, self._timestamp_us, count)
            self._identities.add_key(tenant, terms.idempotency_key, original)
        elif terms.producer is not None:
            for index, number in enumerate(sequences):
                original = Original(Offset(start + index), self._timestamp_us)
                self._identities.add_sequence(tenant, terms.producer, number, original)

    # --- reading ---

    @property
    def _high(self) -> Offset:
        return Offset(self._local + len(self._entries))

    def marks(self) -> Marks:
        with self._lock:
            self._check_usable()
            return self._marks()

    def _marks(self) -> Marks:
        # Nothing that is kept here is durable.
        return Marks(Offset(self._low), self._high, durable=Offset(self._low))

    def read(
        self, start: int, end: int | None, records_max: int | None, bytes_max: int | None
    ) -> list[Entry]:
        """Return the entries in [start, end), within the limits."""
        with self._lock:
            self._check_usable()
            self._check_kept(start)
            if end is not None and end < start:
                raise InvalidError("the end lies before the start", start=start, end=end)
            if start < self._local:
                raise TrimmedError(self._local, **self._place(start))
            stop = self._high if end is None else min(end, self._high)
            if records_max is not None:
                stop = min(stop, start + records_max)
            return _within(self._entries[start - self._local : stop - self._local], bytes_max)

    def check_kept(self, offset: int) -> Offset:
        """Return `offset` if it lies between the marks, else raise."""
        with self._lock:
            self._check_usable()
            return self._check_kept(offset)

    def _check_kept(self, offset: int) -> Offset:
        if offset < self._low:
            raise TrimmedError(self._low, **self._place(offset))
        return self._check_not_beyond(offset)

    def _check_not_beyond(self, offset: int) -> Offset:
        if offset > self._high:
            raise InvalidError(
                "this lies beyond the end of the partition", **self._place(offset), end=self._high
            )
        return Offset(offset)

    def _place(self, offset: int) -> dict[str, object]:
        return {"topic": self._topic.name, "partition": self.number, "offset": offset}

    def offset_at(self, timestamp_us: int) -> Offset:
        with self._lock:
            self._check_usable()
            index = bisect_left(self._entries, timestamp_us, key=lambda entry: entry.timestamp_us)
            return Offset(self._local + index)

    def segments(self) -> list[Segment]:
        """Return everything as one run."""
        with self._lock:
            self._check_usable()
            if not self._entries:
                return []
            return [
                Segment(
                    Offset(self._local),
                    self._high,
                    self._kept_bytes,
                    self._entries[0].timestamp_us,
                    self._entries[-1].timestamp_us,
                    is_sealed=False,
                    location=None,
                )
            ]

    def size_bytes(self) -> int:
        with self._lock:
            self._check_usable()
            return self._kept_bytes

    # --- the proof ---

    def proof_head(self) -> ProofHead:
        """Return the chain's last value; InvalidError if there is no chain."""
        with self._lock:
            self._check_usable()
            if not self._is_proved:
                raise unproved(self._topic)
            return self._chain.head(self._high, self._value_before(self._high))

    def history(self, start: int, end: int | None) -> History:
        """Return what is kept of [start, end), to be checked or copied."""
        with self._lock:
            self._check_usable()
            first = self._local
            low = max(start, first)
            high = max(low, self._high if end is None else min(end, self._high))
            entries = self._entries[low - first : high - first]
            values = self._values[low - first : high - first]
            anchor = self._value_before(low) if self._is_proved else None
        pieces = (Piece([entry], value) for entry, value in zip_longest(entries, values))
        return History(self.number, low, high, self._chain, anchor, self._is_proved, pieces)

    def _value_before(self, offset: int) -> bytes:
        return self._values[offset - self._local - 1] if offset > self._local else self._anchor

    # --- trimming ---

    def trim(self, before: int, *, force: bool) -> TrimReport:
        with self._lock:
            self._check_usable()
            self._check_not_beyond(before)
            return self._trim(before, force=force)

    def retain(self, settings: TopicSettings) -> TrimReport:
        """Trim to the topic's retention."""
        with self._lock:
            self._check_usable()
            return self._retain(settings)

    def _retain(self, settings: TopicSettings) -> TrimReport:
        before = max(self._aged(settings), self._over(settings.retention_bytes))
        return self._trim(before, force=False, least=self._over(settings.limit_bytes))

    def _aged(self, settings: TopicSettings) -> int:
        """Return the offset before which everything is too old."""
        if settings.retention_age_s is None:
            return self._low
        oldest_us = self._clock.now_us() - settings.retention_age_s * 1_000_000
        kept = bisect_left(self._entries, oldest_us, key=lambda entry: entry.timestamp_us)
        return self._local + kept if kept else self._low

    def _over(self, bytes_max: int | None) -> int:
        """Return the offset before which everything is too much."""
        if bytes_max is None:
            return self._low
        before, kept_bytes = self._low, self._kept_bytes
        for entry in self._entries[:-1]:
            if kept_bytes <= bytes_max:
                break
            kept_bytes -= entry.size_bytes
            before = entry.offset + 1
        return before

    def _trim(self, before: int, *, force: bool, least: int = 0) -> TrimReport:
        before = max(before, least)
        held_at = None if force else self._held_at()
        if held_at is not None and max(held_at, least) >= before:
            held_at = None
        low = max(self._low, before if held_at is None else held_at, least)
        removed = low - self._low
        self._let_go(low)
        self._low = low
        return TrimReport(self.number, removed, self._high - low, Offset(low), held_at)

    def evict(self, before: int) -> Offset:
        """Let go of what lies before `before`; the marks stay."""
        with self._lock:
            self._check_usable()
            self._let_go(self._check_not_beyond(before))
            return Offset(self._local)

    def _let_go(self, before: int) -> None:
        gone = max(0, before - self._local)
        if self._is_proved:
            self._anchor = self._value_before(self._local + gone)
            del self._values[:gone]
        self._kept_bytes -= sum(entry.size_bytes for entry in self._entries[:gone])
        del self._entries[:gone]
        self._local += gone

    def _held_at(self) -> Offset | None:
        live = (cursor.offset for cursor in self._cursors.values() if self._is_live(cursor))
        return min(live, default=None)

    def _is_live(self, cursor: _Cursor) -> bool:
        return self._clock.now_us() - cursor.seen_at_us <= _SILENCE_US

    # --- consumers ---

    def ack(self, tenant: Tenant | None, consumer: str, end: int) -> Offset:
        with self._lock:
            self._check_usable()
            known = self._cursors.get((tenant, consumer))
            offset = self._check_not_beyond(end)
            if known is not None:
                offset = max(offset, known.offset)
            self._cursors[tenant, consumer] = _Cursor(offset, self._clock.now_us())
            return offset

    def seek(self, tenant: Tenant | None, consumer: str, offset: int) -> None:
        with self._lock:
            self._check_usable()
            cursor = _Cursor(self._check_kept(offset), self._clock.now_us())
            self._cursors[tenant, consumer] = cursor

    def cursor(self, tenant: Tenant | None, consumer: str) -> Offset | None:
        with self._lock:
            self._check_usable()
            cursor = self._cursors.get((tenant, consumer))
            return None if cursor is None else cursor.offset

    def consumers(self, tenant: Tenant | None) -> list[ConsumerLag]:
        with self._lock:
            self._check_usable()
            return [
                ConsumerLag(
                    name,
                    tenant,
                    self.number,
                    cursor.offset,
                    self._high - cursor.offset,
                    cursor.seen_at_us,
                    self._is_live(cursor),
                )
                for (whose, name), cursor in self._cursors.items()
                if whose == tenant
            ]

    def forget(self, tenant: Tenant | None, consumer: str) -> bool:
        with self._lock:
            self._check_usable()
            return self._cursors.pop((tenant, consumer), None) is not None

    # --- watches and the end ---

    def add_watch(self, watch: LocalWatch, seen: Offset) -> None:
        with self._lock:
            self._check_usable()
            self._watches.add(watch)
            watch.start(self._topic, self.number, seen)
            watch.tell(self._hint())

    def remove_watch(self, watch: LocalWatch) -> None:
        with self._lock:
            self._watches.discard(watch)
            watch.stop(self._topic, self.number)

    def _tell(self) -> None:
        # Under the lock, so that no watch hears of a lower end after a higher one.
        for watch in self._watches:
            watch.tell(self._hint())

    def _hint(self) -> Hint:
        return Hint(self._topic, self.number, self._high)

    def end(self, reason: StrandlineError) -> None:
        """Raise `reason` from now on; waits for an append that runs."""
        with self._lock:
            self._end = reason
            for watch in self._watches:
                watch.tell_dropped(self._hint())

    def _check_usable(self) -> None:
        if self._end is not None:
            raise copy(self._end)


def _within(entries: list[Entry], bytes_max: int | None) -> list[Entry]:
    """Return the first entries that fit, and at least one unless the limit is 0."""
    if bytes_max is None:
        return entries
    if bytes_max == 0:
        return []
    total = 0
    for index, entry in enumerate(entries):
        total += entry.size_bytes
        if total > bytes_max:
            return entries[: max(1, index)]
    return entries
