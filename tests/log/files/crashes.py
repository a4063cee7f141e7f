"""Crashes of a file log: small workloads, every one of them, and long ones by seed.

`run_workload` and `run` repeat a failure by themselves: they take what it prints.
"""

import random
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice, product

from strandline.log import Log
from strandline.log.staged import ingest
from strandline.testing import FakeClock
from strandline.values import Durability
from tests.log.staged_files import stage
from tests.logs import file_log
from tests.model.crash_check import CrashCheck, Violation
from tests.model.crash_images import crash_moments, crash_points
from tests.model.disk import Disk
from tests.model.log_history import LogHistory, Seen, SeenRecord, event_of, look
from tests.model.log_workload import OPERATIONS, LogWorkload

PATH = "/log"
#: So small that a few events fill one.
SEGMENT_BYTES = 4096
_DURABLE = Durability.DURABLE
START_US = 1_700_000_000_000_000

#: The operations of which every sequence of up to three is run.
SMALL = (
    "create",
    "append_written",
    "append_durable",
    "append_many",
    "append_with_producer",
    "append_with_key",
    "sync",
    "flush",
    "trim",
    "ack",
    "seek",
    "drop",
    "reopen",
)
#: Every operation, and those of which only sequences of up to two are run, with all others.
ALL = (*OPERATIONS, "seal", "ingest")
MORE = tuple(name for name in ALL if name not in SMALL)

#: What a store to begin with has been through.
BEFORE = (
    *("create", "append_many", "append_durable", "append_with_producer", "append_with_key"),
    *("ack", "append_many", "append_written", "trim", "append_many_durable", "seek"),
    *("append_written", "append_many"),
)

IMAGES_PER_SEED = 100
#: How many images of each crash of a small workload are looked at, by its length.
IMAGES_OF_SMALL = {1: 24, 2: 3, 3: 1}
#: How many seeds of a kind come to every small workload: of a length, on nothing or a past.
SMALL_STRIDE = 29
SMALL_KINDS = 2 * len(IMAGES_OF_SMALL)
#: How many of the images are looked at more than once.
THOROUGH = 0.2


class TickingClock(FakeClock):
    """A clock that advances by a millisecond whenever it is read."""

    def now_us(self) -> int:
        """See Clock."""
        self.advance(0.001)
        return super().now_us()


class FileWorkload(LogWorkload):
    """A user of a file log."""

    log: Log

    def seal(self) -> None:
        """End the segments, and rewrite them as columns."""
        if (name := self.topic()) is not None:
            self.log.seal(name)

    def ingest(self) -> None:
        """Have a file that was filled beside the log as a segment."""
        if (place := self._place()) is None:
            return
        name, partition = place
        numbers = [self._next() for _ in range(3)]
        path, groups = f"/staged{numbers[0]}", (numbers[:2], numbers[2:])
        staged = [[event_of(number) for number in group] for group in groups]
        rows = stage(self.log, self.disk, path, name, staged, key=f"staged-{numbers[0]:04}")
        self.note(lambda history: history.before_append(name, partition, numbers, None))
        start = ingest(self.log, self.log.topic(name), partition, path, rows)
        assert start is not None
        records = [
            SeenRecord(record.offset, number, record.timestamp_us)
            for record, number in zip(self.log.read(name, partition, start), numbers, strict=True)
        ]
        self.note(lambda history: history.after_append(name, partition, records, _DURABLE))
        self.disk.unlink(path)

    def delete_lock(self) -> None:
        """Remove the lock of a partition, as a clean-up script might."""
        if (name := self.topic()) is not None:
            path = f"{PATH}/topics/{self.log.topic(name).id}/0/lock"
            if self.disk.exists(path):
                self.disk.unlink(path)


def open_log(disk: Disk) -> Log:
    """Open the log on a disk; each opening has its own ids, each boot an earlier clock."""
    opening = disk.boot * 1_000_003 + disk.age
    clock = TickingClock(now_us=START_US - disk.boot * 10_000_000, seed=opening)
    return file_log(PATH, io=disk, clock=clock, segment_bytes=SEGMENT_BYTES)


@cache
def store_before() -> tuple[Disk, Seen, int]:
    """Return a disk with a past, what is seen on it, and the number of its last event.

    Its log was never closed, and what it wrote was made durable behind its back.
    """
    disk = Disk()
    work = FileWorkload(disk, open_log, LogHistory())
    work.run(BEFORE)
    seen = look(work.log)
    assert work.history.check(seen) == []
    return Disk(disk.freeze(), age=disk.age), seen, work.number


def small_workloads(length: int) -> Iterator[tuple[str, ...]]:
    """Yield every workload of up to three operations, and of two with the rarer ones."""
    if length < 3:
        yield from product((*SMALL, *MORE), repeat=length)
    else:
        yield from product(SMALL, repeat=length)


class SmallCrashes:
    """Crashes of small workloads on a store that has a past, or on none."""

    def __init__(self, seed: int, *, fresh: bool = False) -> None:
        self.seed = seed
        self._before, self._seen, self._number = (Disk(), {}, 0) if fresh else store_before()
        self.check = CrashCheck(open_log, self._seen, random.Random(seed), thorough=THOROUGH)

    def run(self, names: Sequence[str], *, limit: int, whole: bool = False) -> list[Violation]:
        """Crash everywhere in the last operation, or in the `whole` workload."""
        disk = Disk(self._before.tree, age=self._before.age)
        history = LogHistory.of(self._seen)
        work = FileWorkload(disk, open_log, history, number=self._number)
        work.run(names[:-1])
        start = 0 if whole else len(disk.journal)
        work.run(names[-1:])
        found = list(self.check.check(disk, start=start, limit=limit))
        work.log.close()
        return found


def crash_small(seed: int, length: int, stride: int, *, fresh: bool) -> None:
    """Crash every `stride`-th workload of so many operations, from one that the seed says."""
    small = SmallCrashes(seed, fresh=fresh)
    for names in islice(small_workloads(length), seed % stride, None, stride):
        violations = small.run(names, limit=IMAGES_OF_SMALL[length])
        where = f"crash_small({seed}, {length}, {stride}, fresh={fresh}): {names}"
        assert not violations, f"{where}: {violations[0]}"


def run_small(seed: int) -> None:
    """Crash some workloads of up to three operations: consecutive seeds come to all of them."""
    turn, fresh = divmod(seed, 2)
    length = 1 + turn % len(IMAGES_OF_SMALL)
    crash_small(seed // SMALL_KINDS, length, SMALL_STRIDE, fresh=bool(fresh))


def run(seed: int) -> None:
    """Look at up to about IMAGES_PER_SEED crashes; see `crash`."""
    crash(seed)


def crash(seed: int, *, images: int = IMAGES_PER_SEED) -> int:
    """Crash a long workload, continue from one of the crashes, and crash that, too.

    Returns how many crashes there were. AssertionError with everything needed to repeat
    it if a rule is broken.
    """
    count = 0
    chance = random.Random(seed)
    disk, number = Disk(), 0
    seen: Seen = {}
    for generation in range(3):
        names = chance.choices(ALL, k=chance.randrange(3, 16))
        if not seen:
            names.insert(0, "create_wide")
        work = FileWorkload(disk, open_log, LogHistory.of(seen), number=number)
        work.run(names)
        check = CrashCheck(open_log, seen, chance, thorough=THOROUGH)
        share = images / 3 / 5 / max(1, len(disk.journal))
        violations = list(check.check(disk, limit=4, share=share, recoveries=0.02))
        count += check.images
        assert not violations, (
            f"run({seed}) breaks a rule in generation {generation}, {names}: {violations[0]}"
        )
        disk, seen = after_one_crash(disk, chance)
        number = work.number
    return count


def after_one_crash(disk: Disk, chance: random.Random) -> tuple[Disk, Seen]:
    """Return what a power loss in the last quarter leaves after its recovery, and what is seen."""
    points = crash_moments(disk)
    start = chance.choice(points[len(points) * 3 // 4 :])
    point = next(crash_points(disk, start=start))
    image = chance.choice(list(point.state.images(5, chance)))
    recovered = image.disk()
    with open_log(recovered) as log:
        seen = look(log)
    return Disk(recovered.freeze(), boot=recovered.boot, age=recovered.age), seen


def caught(seeds: int, *, first: int = 0) -> bool:
    """Return whether some of the smallest workloads, or so many long ones, break a rule.

    The workload of the seed `first` is tried before all other long ones.
    """
    try:
        for names, fresh in _telling():
            if SmallCrashes(0, fresh=fresh).run(names, limit=12):
                return True
        for seed in (first, *range(seeds)):
            crash(seed)
    except Exception:  # noqa: BLE001 - A bug may show itself in any way.
        return True
    return False


def _telling() -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield workloads in which most bugs show themselves, and whether they begin on nothing."""
    yield from ((names, False) for names in small_workloads(1))
    yield from ((("create", name), True) for name in ALL)
    yield from ((("append_written", name), False) for name in MORE)
