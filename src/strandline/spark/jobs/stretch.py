"""Checks one range of a partition, a stretch, in its own task. See design 0052."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from strandline.log import Damage, Log, Piece
from strandline.log.verifying import ANCHOR_MISSING, check_history
from strandline.opening import open_log
from strandline.tiering import CopiedSegment, open_store
from strandline.tiering.cold_segments import ColdSegments
from strandline.tiering.segment import partition_of
from strandline.values import (
    CorruptError,
    InvalidError,
    Mode,
    Offset,
    ProofFinding,
    ProofHead,
    Topic,
    TrimmedError,
    ValueKind,
)

#: The columns with the order of records; the digest of a copy covers the other columns.
_ORDER: Final = ["_offset", "_row", "_timestamp"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """The records [start, end) that one task checks, of the log or of its tier."""

    url: str
    topic: Topic
    partition: int
    start: int
    end: int
    is_cold: bool
    #: Whether it is the first stretch, so that an anchor must exist.
    is_first: bool
    expected: tuple[ProofHead, ...] = ()

    def checked(self) -> "Checked":
        """Read the records, and return the result."""
        with open_log(self.url, mode=Mode.READ) as log:
            while True:
                # Overtaken by a trim, it looks again.
                with contextlib.suppress(TrimmedError):
                    return self._quick(log) or self._thorough(log)

    # --- by columns ---

    def _quick(self, log: Log) -> "Checked | None":
        """Return the result if order and checksums are right and need no further check."""
        settings = log.describe_topic(self.topic).settings
        if settings.proof or self.expected:
            return None
        order = _Order(self.start, has_rows=settings.value_kind is ValueKind.BATCH)
        try:
            for batch in self._copied(log) if self.is_cold else self._stored(log):
                if not order.follows(batch):
                    return None
        except (CorruptError, InvalidError):
            return None
        if order.next != self.end:
            return None
        return Checked(
            self, self.start, self.end - self.start, order.first_us, order.last_us, None, None
        )

    def _stored(self, log: Log) -> Iterator[pa.RecordBatch]:
        return iter(log.read_batches(self.topic, self.partition, self.start, self.end))

    def _copied(self, log: Log) -> Iterator[pa.RecordBatch]:
        place = partition_of(self.topic, self.partition)
        cold = ColdSegments(log, open_store)
        at, epochs = self.start, log.epochs(self.topic, self.partition)
        while at < self.end:
            copy, rows = cold.fetched(place, epochs, at)
            stop = min(copy.end, self.end)
            yield from rows.batches(at, stop, _ORDER)
            at = stop

    # --- record by record ---

    def _thorough(self, log: Log) -> "Checked":
        history = log.history(self.topic, self.partition, self.start, self.end)
        seen = _Neighbour()
        report = check_history(history._replace(pieces=seen.through(history.pieces)), self.expected)
        findings = [each for each in report.findings if self.is_first or not _is_anchor(each)]
        before = history.chain.origin if history.low == 0 else history.anchor
        return Checked(
            self,
            history.low,
            report.records,
            seen.first_us,
            seen.last_us,
            before if history.is_proved else None,
            seen.value if report.head is None else report.head.digest,
            report.head,
            tuple(findings),
        )


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking a stretch, with the values that its neighbours must continue."""

    stretch: Stretch
    #: The start, later than requested if records were trimmed meanwhile.
    start: int
    records: int
    first_us: int | None
    last_us: int | None
    #: The values of the hash chain before and after it, if they are known.
    before: bytes | None
    after: bytes | None
    head: ProofHead | None = None
    findings: tuple[ProofFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class Copy:
    """An object whose records the log still has, so that no read uses it."""

    url: str
    topic: Topic
    segment: CopiedSegment

    def finding(self) -> ProofFinding | None:
        """Fetch it, and return a finding if it is damaged."""
        segment = self.segment
        with open_log(self.url, mode=Mode.READ) as log:
            cold = ColdSegments(log, open_store)
            try:
                rows = cold.rows(segment)
                if rows is None and self._is_gone(cold):
                    return None
                if rows is None:
                    return self._found("this object is missing, restore it")
                rows.check(segment.start, segment.end)
            except CorruptError as error:
                return self._found(str(error))
        return None

    def _is_gone(self, cold: ColdSegments) -> bool:
        """Whether it was deleted since the audit was planned, by the catalogue."""
        listed = {each.id: each.state for each in cold.listed(self.segment.place)}
        return listed.get(self.segment.id) != self.segment.state

    def _found(self, reason: str) -> ProofFinding:
        start, end = self.segment.start, self.segment.end
        return ProofFinding(Offset(start), f"the copy of [{start}, {end}): {reason}")


class _Order:
    """Whether record batches continue one another."""

    def __init__(self, start: int, *, has_rows: bool) -> None:
        self.next = start
        self.first_us: int | None = None
        self.last_us: int | None = None
        self._has_rows = has_rows

    def follows(self, batch: pa.RecordBatch) -> bool:
        """Take a batch; False if offsets have a gap or repeat, or a timestamp decreases."""
        if self._has_rows:
            own = batch.select(["_offset", "_row", "_timestamp"])
            batch = own.filter(pc.equal(own.column("_row"), 0))
        count = batch.num_rows
        if not count:
            return True
        offsets, stamps = batch.column("_offset"), batch.column("_timestamp").cast(pa.int64())
        if not offsets.equals(pa.arange(self.next, self.next + count)):
            return False
        first: int = stamps[0].as_py()
        is_rising = pc.all(pc.less_equal(stamps.slice(0, count - 1), stamps.slice(1))).as_py()
        if is_rising is False or (self.last_us is not None and first < self.last_us):
            return False
        self.first_us = first if self.first_us is None else self.first_us
        self.last_us = stamps[count - 1].as_py()
        self.next += count
        return True


class _Neighbour:
    """Keeps the values that the next stretch must continue, while batches pass through."""

    def __init__(self) -> None:
        self.first_us: int | None = None
        self.last_us: int | None = None
        self.value: bytes | None = None

    def through(
        self, pieces: Iterable[Piece | Damage | ProofFinding]
    ) -> Iterator[Piece | Damage | ProofFinding]:
        for piece in pieces:
            if isinstance(piece, Damage):
                self.value = None
            elif isinstance(piece, Piece):
                self.value = piece.value or self.value
                if piece.entries:
                    self.last_us = piece.entries[-1].timestamp_us
                    if self.first_us is None:
                        self.first_us = piece.entries[0].timestamp_us
            yield piece


def _is_anchor(finding: ProofFinding) -> bool:
    """Whether it is about a value that the stretch before provides anyway."""
    return finding.reason == ANCHOR_MISSING
