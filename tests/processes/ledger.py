"""What writers were promised, kept outside of them, and what a log may hold therefore.

Every value is unique: a producer and a number. So one pass over what is stored finds
whatever was lost, made up, doubled, moved or put out of order.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Value(NamedTuple):
    """One value that was offered to a log, and never twice with different meaning."""

    producer: str
    number: int


class Rule(StrEnum):
    """What was broken."""

    LOST = "acknowledged and not there"
    MOVED = "acknowledged at one offset and found at another"
    TWO_VALUES = "one offset acknowledged for two values"
    TWO_OFFSETS = "one value acknowledged at two offsets"
    PHANTOM = "never offered and there"
    ABORTED = "refused and there"
    DUPLICATED = "there twice"
    REORDERED = "not in the order of its producer"
    GAP = "offsets are not dense"
    TORN = "a part of an append is there"
    WENT_BACK = "less than was promised"
    WENT_TOO_FAR = "more than was asked for"
    TOPIC = "a topic that must not be is there, or the reverse"


class Finding(NamedTuple):
    """A broken rule, and where."""

    rule: Rule
    where: str


@dataclass(slots=True)
class Rising:
    """A number that only rises: it is at least what was promised, at most what was asked."""

    asked: int = 0
    promised: int = 0

    def ask(self, number: int) -> None:
        """A process is about to make it `number`, and may crash before it is acknowledged."""
        self.asked = max(self.asked, number)

    def promise(self, number: int) -> None:
        """It was acknowledged to be `number`."""
        self.ask(number)
        self.promised = max(self.promised, number)

    def check(self, actual: int, where: str) -> Iterator[Finding]:
        """Yield what is wrong with `actual`."""
        if actual < self.promised:
            yield Finding(Rule.WENT_BACK, f"{where}: {actual} < {self.promised}")
        if actual > self.asked:
            yield Finding(Rule.WENT_TOO_FAR, f"{where}: {actual} > {self.asked}")


@dataclass(slots=True)
class Stored:
    """What a reader found in one partition: its marks, and values by offset as they came."""

    low: int
    high: int
    records: Sequence[tuple[int, Value]]
    cursor: int | None = None


@dataclass(slots=True)
class Ledger:
    """Invariant: an append was offered here before a log was asked to take it.

    What was offered and neither acknowledged nor refused is there once or never.
    """

    offers: dict[Value, range] = field(default_factory=dict)
    places: dict[Value, tuple[int, int]] = field(default_factory=dict)
    refused: set[Value] = field(default_factory=set)
    lows: dict[int, Rising] = field(default_factory=lambda: defaultdict(Rising))
    cursors: dict[int, Rising] = field(default_factory=lambda: defaultdict(Rising))
    topics: dict[str, bool | None] = field(default_factory=dict)
    early: list[Finding] = field(default_factory=list)
    _holders: dict[tuple[int, int], Value] = field(default_factory=dict)

    # --- what writers say ---

    def offer(self, producer: str, first: int, count: int = 1) -> None:
        """These numbers are about to be appended, whole or not at all."""
        batch = range(first, first + count)
        for number in batch:
            value = Value(producer, number)
            self.offers[value] = batch
            self.refused.discard(value)

    def acknowledge(self, producer: str, first: int, places: Iterable[tuple[int, int]]) -> None:
        """The values from `first` on are at these partitions and offsets."""
        for number, place in enumerate(places, first):
            value = Value(producer, number)
            if self.places.setdefault(value, place) != place:
                self._add(Rule.TWO_OFFSETS, f"{value}: {self.places[value]}, {place}")
            if (holder := self._holders.setdefault(place, value)) != value:
                self._add(Rule.TWO_VALUES, f"{place}: {holder}, {value}")

    def refuse(self, producer: str, first: int, count: int = 1) -> None:
        """The log said that it has not taken these."""
        self.refused.update(Value(producer, number) for number in range(first, first + count))

    def open_topic(self, name: str, *, settled: bool) -> None:
        """The topic is there; it may be if this is not settled yet."""
        self.topics[name] = True if settled else None

    def drop_topic(self, name: str, *, settled: bool) -> None:
        """The topic is gone; it may be if this is not settled yet."""
        self.topics[name] = False if settled else None

    def unsettled(self, producer: str) -> range | None:
        """Return the append of this producer whose outcome is unknown."""
        mine = (value for value in self.offers if value.producer == producer)
        settled = self.places.keys() | self.refused
        unknown = max((value for value in mine if value not in settled), default=None)
        return None if unknown is None else self.offers[unknown]

    def roll_back_to(self, older: "Ledger") -> None:
        """The log was replaced by a copy made when `older` was true.

        What was acknowledged since may be gone, and its offsets given away again.
        """
        self.places = dict(older.places)
        self._holders = {place: value for value, place in older.places.items()}
        for mine, theirs in ((self.lows, older.lows), (self.cursors, older.cursors)):
            for partition, rising in mine.items():
                rising.promised = theirs[partition].promised if partition in theirs else 0
        self.topics = dict(older.topics)

    # --- what the log holds ---

    def check(
        self, stored: Mapping[int, Stored], topics: Iterable[str] | None = None
    ) -> list[Finding]:
        """Return every broken rule."""
        findings = list(self.early)
        for partition, found in stored.items():
            findings += self._check_partition(partition, found)
        findings += self._check_values(stored)
        if topics is not None:
            findings += self._check_topics(set(topics))
        return findings

    def _check_partition(self, partition: int, found: Stored) -> Iterator[Finding]:
        yield from self.lows[partition].check(found.low, f"partition {partition}, low-water mark")
        if found.cursor is not None or self.cursors[partition].promised:
            yield from self.cursors[partition].check(
                found.cursor or 0, f"partition {partition}, cursor"
            )
        offsets = [offset for offset, _ in found.records]
        if offsets != list(range(found.low, found.high)):
            yield Finding(Rule.GAP, f"partition {partition}: {_first_gap(offsets, found)}")
        latest: dict[str, int] = {}
        for offset, value in found.records:
            if value.number <= latest.get(value.producer, -1):
                yield Finding(Rule.REORDERED, f"partition {partition}, {offset}: {value}")
            latest[value.producer] = value.number

    def _check_values(self, stored: Mapping[int, Stored]) -> Iterator[Finding]:
        at = {
            (partition, offset): value
            for partition, found in stored.items()
            for offset, value in found.records
        }
        where = {value: place for place, value in at.items()}
        for value, times in Counter(at.values()).items():
            if times > 1:
                yield Finding(Rule.DUPLICATED, f"{value}: {times} times")
            if value not in self.offers:
                yield Finding(Rule.PHANTOM, f"{where[value]}: {value}")
            elif value in self.refused and value not in self.places:
                yield Finding(Rule.ABORTED, f"{where[value]}: {value}")
        for value, place in self.places.items():
            if place[0] not in stored or place[1] < stored[place[0]].low:
                continue
            if value not in where:
                yield Finding(Rule.LOST, f"{place}: {value}")
            elif at.get(place) != value:
                yield Finding(Rule.MOVED, f"{value}: {place}, {where[value]}")
        yield from self._check_whole(stored, where)

    def _check_whole(
        self, stored: Mapping[int, Stored], where: Mapping[Value, tuple[int, int]]
    ) -> Iterator[Finding]:
        for value, (partition, offset) in where.items():
            for number in self.offers.get(value, range(0)):
                other = where.get(Value(value.producer, number))
                distance = number - value.number
                if offset + distance < stored[partition].low:
                    continue
                if other != (partition, offset + distance):
                    yield Finding(Rule.TORN, f"{value} is there, {number} is not beside it")

    def _check_topics(self, there: set[str]) -> Iterator[Finding]:
        for name, wanted in self.topics.items():
            if wanted is not None and wanted != (name in there):
                yield Finding(Rule.TOPIC, f"{name}: {'missing' if wanted else 'there'}")

    def _add(self, rule: Rule, where: str) -> None:
        self.early.append(Finding(rule, where))


def _first_gap(offsets: Sequence[int], found: Stored) -> str:
    for expected, offset in zip(range(found.low, found.high), offsets, strict=False):
        if expected != offset:
            return f"{offset} in place of {expected}"
    return f"{len(offsets)} records in [{found.low}, {found.high})"
