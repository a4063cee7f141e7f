"""Tiers a log in a separate process, and dies at a given step."""

import os
import signal
import sys
import time
from typing import Any

import strandline as sl
from strandline.tiering import (
    ObjectStore,
    SegmentCatalogue,
    TieringWorker,
    compact,
    open_store,
    tier,
)


class Dying:
    """Counts everything that a run does, and dies before the n-th of it."""

    def __init__(self, die_at: int) -> None:
        self._die_at = die_at
        self.count = 0

    def around(self, owner: Any, name: str) -> None:
        done = getattr(owner, name)

        def counted(*args: Any, **options: Any) -> Any:
            self._tick()
            result = done(*args, **options)
            self._tick()
            return result

        setattr(owner, name, counted)

    def _tick(self) -> None:
        self.count += 1
        if self.count == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)


def tier_and_merge(log: sl.Log, store: str | ObjectStore) -> None:
    """Move everything in objects of nine records, which then become one."""
    tier(log, "t", store, piece_records=9, include_open=True, local_bytes=0, delta=True)
    compact(log, "t", store, grace_s=0)


def main(url: str, store: str, die_at: int) -> None:
    objects = open_store(store)
    with sl.open(url) as log:
        dying = Dying(die_at)
        for name in ("put", "put_new", "get", "delete", "list"):
            dying.around(objects, name)
        for name in ("add", "change", "evict"):
            dying.around(SegmentCatalogue, name)
        dying.around(log, "evict")
        tier_and_merge(log, objects)
    print(dying.count)  # noqa: T201 - For the test that started it.


def work(url: str, store: str) -> None:
    """Let a worker of this process run until everything has moved, by any process."""
    with (
        sl.open(url) as log,
        TieringWorker(
            log, ["t"], store, interval_s=0.01, piece_records=9, include_open=True, local_bytes=0
        ) as worker,
    ):
        while log.evict("t", 0, 0) < log.marks("t", 0).high:
            time.sleep(0.01)
        assert worker.fault is None, worker.fault


if __name__ == "__main__":
    if sys.argv[3] == "worker":
        work(sys.argv[1], sys.argv[2])
    else:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
