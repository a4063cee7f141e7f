"""Whether what a partition holds agrees with what its writers were promised.

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
"""Acknowledged and not there; there and never offered; there twice; before one that
was acknowledged before it was offered; an offset left out; there although it failed;
an offset with two values; not at the offset it was given; one part of what was
appended together."""


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
    told_at: int | None = None
    is_required: bool = False


class History:
    """The writes to one partition, as their callers know them.

    Report in the order in which things happen: that order is what `reordered` is
    about. A write of which nothing more is reported is unknown: there once or never.
    """

    def __init__(self) -> None:
        self._writes: dict[Hashable, _Write] = {}
        self._groups: list[Sequence[Hashable]] = []
        self._told: dict[int, Hashable] = {}
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
        """Its writer learned that it is stored at `offset`, and how safely."""
        self._now += 1
        write = self._writes[value]
        write.fate, write.offset, write.told_at = _Fate.ACKNOWLEDGED, offset, self._now
        write.is_required = True
        write.level = level if write.level is None else max(level, write.level)
        self.observe(offset, value)

    def fail(self, value: Hashable) -> None:
        """Its writer learned that it is not stored."""
        self._writes[value].fate = _Fate.FAILED

    def observe(self, offset: int, value: Hashable) -> None:
        """A reader saw it there."""
        if self._told.setdefault(offset, value) != value:
            self._early.append(Finding("two values", offset, value))

    def sync(self, end: int) -> None:
        """Everything before `end` was said to be durable."""
        for write in self._writes.values():
            if write.offset is not None and write.offset < end and write.is_required:
                write.level = Durability.DURABLE

    def lose_power(self) -> None:
        """What was not durable may be gone from here on, and its offset given to another."""
        for value, write in self._writes.items():
            if write.is_required and write.level is not Durability.DURABLE:
                write.is_required = False
                assert write.offset is not None
                if self._told.get(write.offset) == value:
                    del self._told[write.offset]

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
            if self._told.get(offset, value) != value:
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
            if write.told_at is not None and write.told_at < offered_latest:
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
            # The first ones may have been trimmed; the others lie one behind the other.
            last = offsets[-1]
            first = None if last is None else last - len(values) + 1
            for number, (value, offset) in enumerate(zip(values, offsets, strict=True)):
                place = None if first is None else first + number
                if offset != place and (place is None or place >= low):
                    findings.append(Finding("torn", offset, value))
                    break
        return findings
