"""Locks that are kept between appends: set-up and inspection for tests."""

import fcntl
import os
from pathlib import Path
from typing import Any

import strandline as sl
from strandline.clock import SystemClock
from strandline.log import Log
from strandline.stores.files.tail import FENCE_AT, WANTED, WANTED_AT, Fence, pack_fence
from tests.core.test_lane import lane_of

#: Longer than any lease lasts.
SHARED_S = 0.001
PATIENCE_S = 20.0


def keep_lock(log: Log) -> None:
    """Append until the lock is kept, and has been for so long that it is given up on request."""
    clock, event = SystemClock(), sl.Event("kept")
    deadline = clock.monotonic() + PATIENCE_S
    since = deadline
    while clock.monotonic() < deadline:
        log.append("t", event)
        now = clock.monotonic()
        since = min(since, now) if lane_of(log).is_leased else deadline
        if now > since + SHARED_S:
            return
    raise AssertionError("the lock is never kept")


def ask(tail: Path) -> None:
    """Do as a process that waits for the lock does."""
    with tail.open("r+b") as file:
        os.pwrite(file.fileno(), WANTED, WANTED_AT)


def fence(log: Log, tail: Path) -> None:
    """Do as a process does that takes the partition over."""
    store: Any = log._store  # noqa: SLF001 - For the partition's identity.
    seed = store.topics()[0].partitions[0].place.tail_seed(0)
    with tail.open("r+b") as file:
        os.pwrite(file.fileno(), pack_fence(seed, Fence(1)), FENCE_AT)


def is_free(lock: Path) -> bool:
    """Whether no process has the lock at this moment."""
    file = os.open(lock, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(file)


def await_free(lock: Path) -> None:
    """Return once no process has the lock, without an append by the one that kept it."""
    clock = SystemClock()
    deadline = clock.monotonic() + PATIENCE_S
    while clock.monotonic() < deadline:
        if is_free(lock):
            return
    raise AssertionError("a process that does not append keeps the lock")
