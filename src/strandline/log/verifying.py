"""Verification of a partition's history, for every store. See design 0022."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from strandline.log.access import Access
from strandline.log.erased import is_tombstone
from strandline.log.history import Damage, History, Kept, Piece
from strandline.log.store import Store, StoredTopic
from strandline.log.terms import check_partition
from strandline.values import (
    CorruptError,
    InvalidError,
    Offset,
    Partition,
    ProofFinding,
    ProofHead,
    ProofReport,
    Topic,
    TrimmedError,
)
from strandline.values.arguments import check_items

ANCHOR_MISSING = "the anchor is missing: what was trimmed before is unknown"


def verify_each(
    history: Callable[[Topic, int], History],
    topic: StoredTopic,
    partition: int | None,
    expected: Iterable[ProofHead],
) -> Sequence[ProofReport]:
    """Return a report of the partition given, or of all of them.

    InvalidError for a head of a partition that is not checked.
    """
    count = topic.settings.partitions
    numbers = range(count) if partition is None else [check_partition(partition, count)]
    heads: dict[int, list[ProofHead]] = {number: [] for number in numbers}
    for head in check_items("expected", expected):
        if not isinstance(head, ProofHead):
            raise InvalidError("an expected head is a ProofHead", type=type(head).__name__)
        if head.partition not in heads:
            raise InvalidError(
                "this head is of a partition that is not verified", partition=head.partition
            )
        heads[head.partition].append(head)
    read = partial(history, topic.topic)
    return [_verify(read, number, heads[number]) for number in numbers]


def proof_head(
    store: Store[StoredTopic], access: Access, topic: StoredTopic, partition: Partition
) -> ProofHead:
    """Return a digest of everything up to the end, once it is durable."""
    if not topic.settings.proof:
        raise unproved(topic.topic)
    high = store.marks(topic, partition).high
    access.durable_before(topic, partition, high)
    history = store.history(topic, partition, high, high)
    if history.anchor is None:
        raise CorruptError(
            "the proof of this partition is damaged, see verify", file=store.url, position=high
        )
    return history.chain.head(history.low, history.anchor)


def with_findings(
    reports: Sequence[ProofReport], damage: Iterable[CorruptError]
) -> Sequence[ProofReport]:
    """Return the reports, with damage found outside the records added to the first."""
    found = tuple(ProofFinding(Offset(0), str(each)) for each in damage)
    if not found or not reports:
        return reports
    first = reports[0]
    return [replace(first, findings=(*found, *first.findings)), *reports[1:]]


def _verify(
    history: Callable[[int], History], number: int, expected: Sequence[ProofHead]
) -> ProofReport:
    while True:
        # If a trim overtakes it, it starts again.
        with contextlib.suppress(TrimmedError):
            return check_history(history(number), expected)


def unproved(topic: Topic) -> InvalidError:
    """Return the error for a head of a topic without a proof."""
    return InvalidError("this topic was created without a proof", topic=topic.name)


def check_history(history: History, expected: Sequence[ProofHead]) -> ProofReport:
    """Return a report of the damage in a partition's records."""
    checking = _Checking(history, expected)
    for piece in history.pieces:
        if isinstance(piece, Damage):
            checking.damage(piece)
        elif isinstance(piece, ProofFinding):
            checking.find(piece)
        else:
            checking.piece(piece)
    return checking.report()


class _Checking:
    def __init__(self, history: History, expected: Sequence[ProofHead]) -> None:
        self._history = history
        self._findings: list[ProofFinding] = []
        self._next = history.low
        self._last_us: int | None = None
        self._records = self._erased = 0
        #: The chain's value before `next`; None while unknown.
        self._value = self._anchor()
        self._heads: dict[int, list[ProofHead]] = {}
        for head in expected:
            self._expect(head)
        self._compare()

    def piece(self, piece: Piece) -> None:
        entries = piece.entries
        if not entries:
            self._join(piece.value)
            return
        for entry in entries:
            self._entry(entry)
        if not self._history.is_proved:
            return
        first, last = entries[0].offset, entries[-1].offset
        if piece.value is None:
            self._find(first, f"no proof is stored for the records from {first} to {last}")
        elif self._value is not None and self._value != piece.value:
            self._find(
                first, f"the records from {first} to {last} are not what was written there, or when"
            )
        self._value = piece.value or self._value

    def find(self, finding: ProofFinding) -> None:
        self._findings.append(finding)

    def damage(self, damage: Damage) -> None:
        self._find(damage.offset, damage.reason)
        self._skip(damage.stop)

    def report(self) -> ProofReport:
        history = self._history
        if self._next < history.high:
            self._find(self._next, f"the records from here to {history.high - 1} are missing")
            self._skip(history.high)
        is_whole = history.is_proved and not self._findings and self._value is not None
        head = history.chain.head(history.high, self._value or b"") if is_whole else None
        return ProofReport(
            history.partition,
            Offset(history.low),
            Offset(history.high),
            self._records,
            history.is_proved,
            head,
            tuple(sorted(self._findings, key=lambda finding: finding.offset)),
            self._erased,
        )

    # --- inside ---

    def _anchor(self) -> bytes | None:
        history = self._history
        if history.low == 0:
            return history.chain.origin
        if history.anchor is None and history.is_proved:
            self._find(history.low, ANCHOR_MISSING)
        return history.anchor

    def _join(self, value: bytes | None) -> None:
        """Compare with the chain's value that is stored for all before."""
        if not self._history.is_proved:
            return
        if value is None:
            self._find(self._next, "no proof is stored for what lies before")
        elif self._value is not None and self._value != value:
            self._find(self._next, "what lies before is not what was written there, or when")
        self._value = value or self._value

    def _expect(self, head: ProofHead) -> None:
        history, offset = self._history, head.offset
        own = history.chain.head(offset, head.digest)
        if head != own:
            self._find(offset, "the expected head is of another log or topic, perhaps one before")
        elif not history.is_proved:
            self._find(offset, "the topic keeps no proof, and the expected head says that it did")
        elif offset < history.low:
            self._find(offset, "what the expected head is of was trimmed: it cannot be compared")
        elif offset > history.high:
            self._find(history.high, f"the history ends here, the expected head is at {offset}")
        else:
            self._heads.setdefault(offset, []).append(head)

    def _compare(self) -> None:
        for head in self._heads.pop(self._next, ()):
            if self._value is None:
                self._find(head.offset, "the expected head cannot be compared: see what is missing")
            elif head.digest != self._value:
                self._find(head.offset, "what lies before does not match the expected head")

    def _entry(self, entry: Kept) -> None:
        offset = entry.offset
        if offset > self._next:
            self._find(self._next, f"the records from here to {offset - 1} are missing")
            self._skip(offset)
        elif offset < self._next:
            self._find(offset, "there is a second record of this offset")
            return
        if self._last_us is not None and entry.timestamp_us < self._last_us:
            self._find(offset, "its timestamp is before that of the record before it")
        self._last_us = entry.timestamp_us
        self._records += 1
        self._erased += is_tombstone(entry.body)
        self._next = offset + 1
        if self._history.is_proved and self._value is not None:
            self._value = self._history.chain.link_kept(self._value, entry)
        if self._heads:
            self._compare()

    def _skip(self, stop: int) -> None:
        """Continue at `stop`, ignoring the records before it."""
        self._value = None
        for offset in sorted(self._heads):
            if offset < stop:
                self._next = offset
                self._compare()
        self._next = stop
        self._compare()

    def _find(self, offset: int, reason: str) -> None:
        self._findings.append(ProofFinding(Offset(offset), reason))
