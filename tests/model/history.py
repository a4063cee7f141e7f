"""Checks the content of a partition against the outcomes that its writers got.

Every value is offered once, so one pass over the content is enough.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple

from strandline.values import Durability

FindingKind = Literal[
    "lost",
    "phantom",
    "duplicated",
    "reordered",
    "gap",
    "aborted read",
    "two values",
    "moved",
    "torn",
]
"""In this order: acknowledged, but missing; never offered; there twice; stored after a value that
was offered only after this one was acknowledged; a missing offset; there although the write
failed; an offset with two values; not at the acknowledged offset; part of what was appended
together."""


class Finding(NamedTuple):
    """One disagreement, at an offset, about a value."""

    kind: FindingKind
    offset: int | None
    value: Hashable


class _Fate(Enum):
    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"


@dataclass(slots=True)
class _Write:
    group: int
    offered_at: int
    fate: _Fate = _Fate.OPEN
    offset: int | None = None
    level: Durability | None = None
    acknowledged_at: int | None = None
    is_required: bool = False


class History:
    """The writes to one partition, as their callers know them.

    Call in the order in which things happen: `reordered` depends on it. A write without an
    outcome may be there once or not at all.
    """

    def __init__(self) -> None:
        self._writes: dict[Hashable, _Write] = {}
        self._groups: list[Sequence[Hashable]] = []
        self._confirmed: dict[int, Hashable] = {}
        self._early: list[Finding] = []
        self._now = 0

    def offer(self, *values: Hashable) -> None:
        """A writer is about to append these, together if there are several."""
        self._now += 1
        for value in values:
            assert value not in self._writes, f"every value is offered once: {value!r}"
            self._writes[value] = _Write(len(self._groups), self._now)
        self._groups.append(values)

    def acknowledge(
        self, value: Hashable, offset: int, level: Durability = Durability.WRITTEN
    ) -> None:
        """The writer got a receipt: stored at `offset`, at this level."""
        self._now += 1
        write = self._writes[value]
        write.fate, write.offset, write.acknowledged_at = _Fate.ACKNOWLEDGED, offset, self._now
        write.is_required = True
        write.level = level if write.level is None else max(level, write.level)
        self.observe(offset, value)

    def fail(self, value: Hashable) -> None:
        """The writer got an error: it is not stored."""
        self._writes[value].fate = _Fate.FAILED

    def observe(self, offset: int, value: Hashable) -> None:
        """A reader got the value at this offset."""
        if self._confirmed.setdefault(offset, value) != value:
            self._early.append(Finding("two values", offset, value))

    def sync(self, end: int) -> None:
        """Everything before `end` was reported as durable."""
        for write in self._writes.values():
            if write.offset is not None and write.offset < end and write.is_required:
                write.level = Durability.DURABLE

    def lose_power(self) -> None:
        """What was not durable may be missing from now on, and its offset used again."""
        for value, write in self._writes.items():
            if write.is_required and write.level is not Durability.DURABLE:
                write.is_required = False
                assert write.offset is not None
                if self._confirmed.get(write.offset) == value:
                    del self._confirmed[write.offset]

    def check(self, content: Iterable[tuple[int, Hashable]], *, low: int = 0) -> list[Finding]:
        """Return every disagreement with the records now there, in the order read.

        `low` is the low-water mark: what lies before it need not be there any more.
        """
        findings = list(self._early)
        found: dict[Hashable, int] = {}
        expected = low
        offered_latest = 0
        for offset, value in content:
            if offset != expected:
                findings.append(Finding("gap", offset, value))
            expected = offset + 1
            if self._confirmed.get(offset, value) != value:
                findings.append(Finding("two values", offset, value))
            write = self._writes.get(value)
            if write is None:
                findings.append(Finding("phantom", offset, value))
                continue
            if value in found:
                findings.append(Finding("duplicated", offset, value))
                continue
            findings += self._judged(write, offset, value)
            found[value] = offset
            if write.acknowledged_at is not None and write.acknowledged_at < offered_latest:
                findings.append(Finding("reordered", offset, value))
            offered_latest = max(offered_latest, write.offered_at)
        return findings + self._missing(found, low) + self._torn(found, low)

    def _judged(self, write: _Write, offset: int, value: Hashable) -> list[Finding]:
        findings = []
        if write.offset not in (None, offset):
            findings.append(Finding("moved", offset, value))
        if write.fate is _Fate.FAILED:
            findings.append(Finding("aborted read", offset, value))
        return findings

    def _missing(self, found: dict[Hashable, int], low: int) -> list[Finding]:
        return [
            Finding("lost", write.offset, value)
            for value, write in self._writes.items()
            if write.is_required
            and write.offset is not None
            and write.offset >= low
            and value not in found
        ]

    def _torn(self, found: dict[Hashable, int], low: int) -> list[Finding]:
        findings = []
        for values in self._groups:
            offsets = [found.get(value) for value in values]
            if len(values) == 1 or not any(offset is not None for offset in offsets):
                continue
            # The first ones may have been trimmed; the others are consecutive.
            last = offsets[-1]
            first = None if last is None else last - len(values) + 1
            for number, (value, offset) in enumerate(zip(values, offsets, strict=True)):
                place = None if first is None else first + number
                if offset != place and (place is None or place >= low):
                    findings.append(Finding("torn", offset, value))
                    break
        return findings
