"""Opens a log on crash images of its disk and reports what is wrong.

For each image: opening works; the content agrees with the results that users got; opening again
shows the same; appending continues, repeats are recognised, and nothing is lost by that; and a
crash during recovery changes none of this.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from strandline.log import Log
from strandline.values import Durability, StrandlineError, TrimmedError
from tests.model.crash_images import CrashPoint, Image, crash_points
from tests.model.disk import Disk
from tests.model.log_history import LogHistory, Seen, SeenRecord, look, look_at
from tests.model.log_workload import append

#: Above every number that a workload gives to an event.
FRESH = 1_000_000
#: How many crashes of one recovery are looked at.
RECOVERY_IMAGES = 8

OpenLog = Callable[[Disk], Log]


@dataclass(frozen=True, slots=True)
class Violation:
    """What is wrong with one image."""

    entries: int
    """After how many entries of the journal the crash came."""
    crash: str
    image: Image
    findings: Sequence[str]

    def __str__(self) -> str:
        return f"after entry {self.entries}, {self.crash}: {'; '.join(self.findings)}"


@dataclass(frozen=True, slots=True)
class _Opened:
    """The result of opening an image; the findings are those that need no history."""

    seen: Seen | None
    findings: tuple[str, ...]


class CrashCheck:
    """Checks the crashes of one log; equal images are opened once.

    A share of the images, `thorough`, is opened again: to compare, to append, and to resolve
    positions and repeat writes that users have stored elsewhere.
    """

    def __init__(
        self, open_log: OpenLog, base: Seen, chance: random.Random, *, thorough: float = 1.0
    ) -> None:
        self._open_log = open_log
        self._thorough = thorough
        self._base = base
        self._chance = chance
        self._known: dict[int, _Opened] = {}
        self.images = 0
        self.opened = 0

    def check(
        self, disk: Disk, *, start: int = 0, limit: int, share: float = 1.0, recoveries: float = 0.1
    ) -> Iterator[Violation]:
        """Crash after the entries of the disk's journal from `start` on, or a share of them.

        At each, kill once and lose power `limit` times; crash this share of recoveries.
        """
        for point in crash_points(disk, start=start):
            if self._chance.random() > share:
                continue
            killed, powerless = self.history(point.facts), self.history(point.facts)
            powerless.lose_power()
            for crash, image in self._crashed(point, limit):
                history = killed if crash == "killed" else powerless
                findings = self._judged(image, history, powerless, recoveries)
                if findings:
                    yield Violation(point.entries, crash, image, findings)

    def history(self, facts: Sequence[object]) -> LogHistory:
        """Return the history that these facts make."""
        history = LogHistory.of(self._base)
        for fact in facts:
            assert callable(fact)
            fact(history)
        return history

    def _crashed(self, point: CrashPoint, limit: int) -> Iterator[tuple[str, Image]]:
        yield "killed", point.state.after_kill()
        within = point.state.after_kill_within(self._chance)
        if within is not None:
            yield "killed", within
        for image in point.state.images(limit, self._chance):
            yield "power lost", image

    def _judged(
        self, image: Image, history: LogHistory, powerless: LogHistory, recoveries: float
    ) -> list[str]:
        """Return what is wrong with an image; `powerless` says what a power loss may take."""
        self.images += 1
        opened = self._opened(image)
        findings = list(opened.findings)
        if opened.seen is not None:
            findings += history.check(opened.seen)
            if not findings and self._chance.random() < self._thorough:
                findings += self._asked(image, history, opened.seen)
            if not findings and self._chance.random() < recoveries:
                findings += self._recovered_twice(image, powerless)
        return findings

    def _opened(self, image: Image) -> _Opened:
        key = hash((image.boot, image.key))
        known = self._known.get(key)
        if known is None:
            self.opened += 1
            known = self._known[key] = self._open(image)
        return known

    def _open(self, image: Image) -> _Opened:
        """Open an image, look, open again, continue, open again."""
        disk = image.disk()
        seen: Seen | None = None
        try:
            with self._open_log(disk) as log:
                seen = look(log)
            if self._chance.random() >= self._thorough:
                return _Opened(seen, ())
            with self._open_log(disk) as log:
                if _without_marks(again := look(log)) != _without_marks(seen):
                    return _Opened(seen, (f"another opening shows {again}, not {seen}",))
                seen, expected = go_on(log, seen)
            with self._open_log(disk) as log:
                if _without_marks(again := look(log)) != _without_marks(expected):
                    return _Opened(seen, (f"after continuing {again}, not {expected}",))
        except Exception as error:  # noqa: BLE001 - Whatever it is, a crash must not lead to it.
            return _Opened(seen, (f"opening fails: {error!r}",))
        return _Opened(seen, ())

    def _asked(self, image: Image, history: LogHistory, seen: Seen) -> list[str]:
        """Return what is wrong with positions and identities that were stored elsewhere."""
        if not history.positions and not history.identified:
            return []
        findings = []
        with self._open_log(image.disk()) as log:
            for position in history.positions:
                try:
                    if log.resolve(position) != position.offset:
                        findings.append(f"{position} leads elsewhere")
                except TrimmedError:
                    pass
                except StrandlineError as error:
                    findings.append(f"a stored position is refused: {error!r}")
            for write in history.identified:
                found = {
                    record.value: record.offset
                    for record in seen[write.topic].partitions[write.partition].records
                }
                place = (write.topic, write.partition)
                if write.numbers[0] in found:
                    receipts = append(log, place, write.numbers, Durability.WRITTEN, write.identity)
                    offsets = [receipt.offset for receipt in receipts]
                    if offsets != [found.get(number) for number in write.numbers]:
                        findings.append(f"a repeat is not recognised: {write} {offsets}")
        return findings

    def _recovered_twice(self, image: Image, history: LogHistory) -> list[str]:
        """Return what is wrong after the recovery of an image has crashed, too."""
        disk = image.disk()
        self._open_log(disk).close()
        share = RECOVERY_IMAGES / 2 / max(1, len(disk.journal))
        for point in crash_points(disk):
            if self._chance.random() >= share:
                continue
            for again in point.state.images(2, self._chance):
                self.images += 1
                opened = self._opened(again)
                findings = list(opened.findings)
                if opened.seen is not None:
                    findings += history.check(opened.seen)
                if findings:
                    where = f"the recovery crashed after its entry {point.entries}"
                    return [where, *findings]
        return []


def go_on(log: Log, seen: Seen) -> tuple[Seen, Seen]:
    """Append a durable event to each partition.

    Returns what was there before, including records that recovery found and no writer had
    acknowledged, and what must be seen with the new events.
    """
    settled, expected = dict(seen), dict(seen)
    number = FRESH
    for name, topic in seen.items():
        before, after = list(topic.partitions), list(topic.partitions)
        for partition, part in enumerate(topic.partitions):
            number += 1
            [receipt] = append(log, (name, partition), [number], Durability.DURABLE)
            now = look_at(log, name, partition, log.marks(name, partition))
            found = now.records[len(part.records) : -1]
            part = replace(  # noqa: PLW2901 - The same one, as the writer found it.
                part, high=part.high + len(found), records=(*part.records, *found)
            )
            before[partition] = part
            added = SeenRecord(part.high, number, receipt.timestamp_us)
            after[partition] = replace(
                part, high=part.high + 1, durable=part.high + 1, records=(*part.records, added)
            )
        settled[name] = replace(topic, partitions=tuple(before))
        expected[name] = replace(topic, partitions=tuple(after))
    return settled, expected


def _without_marks(seen: Seen) -> Seen:
    """Return what was seen with nothing said about what is durable."""
    return {
        name: replace(topic, partitions=tuple(replace(p, durable=0) for p in topic.partitions))
        for name, topic in seen.items()
    }
