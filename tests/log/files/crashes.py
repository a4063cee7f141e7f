"""Crashes of a file log: small workloads, every one of them, and long ones by seed.

`run_workload` and `run` repeat a failure by themselves: they take what it prints.
"""

import random
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product

from strandline.log.files import FileLog
from strandline.testing import FakeClock
from tests.model.crash_check import CrashCheck, Violation
from tests.model.crash_images import crash_points
from tests.model.disk import Disk, Tree
from tests.model.log_history import LogHistory, Seen, look
from tests.model.log_workload import OPERATIONS, LogWorkload

PATH = "/log"
#: So small that a few events fill one.
SEGMENT_BYTES = 4096
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
#: Of which only sequences of up to two are, with all others.
MORE = tuple(name for name in OPERATIONS if name not in SMALL)

#: What a store to begin with has been through.
BEFORE = (
    *("create", "append_many", "append_durable", "append_with_producer", "append_with_key"),
    *("ack", "append_many", "append_written", "trim", "append_many_durable", "seek"),
    *("append_written", "append_many"),
)

IMAGES_PER_SEED = 100


class TickingClock(FakeClock):
    """A clock that goes on by a millisecond whenever somebody looks at it."""

    def now_us(self) -> int:
        """See Clock."""
        self.advance(0.001)
        return super().now_us()


def open_log(disk: Disk) -> FileLog:
    """Open the log on a disk; each opening has ids of its own, each boot an earlier clock."""
    opening = disk.boot * 1_000_003 + len(disk.journal)
    clock = TickingClock(now_us=START_US - disk.boot * 10_000_000, seed=opening)
    return FileLog(PATH, io=disk, clock=clock, segment_bytes=SEGMENT_BYTES)


@cache
def store_before() -> tuple[Tree, Seen, int]:
    """Return a store with a past, what is seen in it, and the number of its last event.

    Its log was never closed, and what it wrote was made durable behind its back.
    """
    disk = Disk()
    work = LogWorkload(disk, open_log, LogHistory())
    work.run(BEFORE)
    seen = look(work.log)
    assert work.history.check(seen) == []
    return disk.freeze(), seen, work.number


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
        self._tree, seen, self._number = (Tree(), {}, 0) if fresh else store_before()
        self._seen: Seen = seen
        self.check = CrashCheck(open_log, seen, random.Random(seed))

    def run(self, names: Sequence[str], *, limit: int, whole: bool = False) -> list[Violation]:
        """Crash everywhere in the last operation, or in the `whole` workload."""
        disk = Disk(self._tree)
        history = LogHistory.of(self._seen)
        work = LogWorkload(disk, open_log, history, number=self._number)
        work.run(names[:-1])
        start = 0 if whole else len(disk.journal)
        work.run(names[-1:])
        found = list(self.check.check(disk, start=start, limit=limit))
        work.log.close()
        return found


def run(seed: int, *, images: int = IMAGES_PER_SEED) -> None:
    """Crash a long workload, go on from one of the crashes, and crash that, too.

    AssertionError with everything needed to repeat it if a rule is broken.
    """
    chance = random.Random(seed)
    tree, boot, number = Tree(), 0, 0
    seen: Seen = {}
    for generation in range(3):
        disk = Disk(tree, boot=boot)
        names = chance.choices(list(OPERATIONS), k=chance.randrange(3, 16))
        if generation == 0:
            names.insert(0, "create_wide")
        work = LogWorkload(disk, open_log, LogHistory.of(seen), number=number)
        work.run(names)
        check = CrashCheck(open_log, seen, chance)
        share = min(1.0, images / 3 / 4 / max(1, len(disk.journal)))
        violations = list(check.check(disk, limit=4, share=share))
        assert not violations, (
            f"run({seed}) breaks a rule in generation {generation}, {names}: {violations[0]}"
        )
        tree, boot, seen = after_one_crash(disk, chance)
        number = work.number


def after_one_crash(disk: Disk, chance: random.Random) -> tuple[Tree, int, Seen]:
    """Return what a power loss in the last quarter leaves after its recovery, and what is seen."""
    target = chance.randrange(len(disk.journal) * 3 // 4, len(disk.journal))
    point = next(crash_points(disk, start=target))
    *_, image = point.state.images(5, chance)
    recovered = image.disk()
    with open_log(recovered) as log:
        seen = look(log)
    return recovered.freeze(), recovered.boot, seen
