"""Whole public calls, interrupted: a slice of what `make torture` does in full."""

import contextlib
import functools
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from strandline.stores.files import keys, partition_writer, root
from strandline.stores.sqlite import store_lock
from strandline.writes import drain
from tests.model.interrupted_calls import CALLS, PAIRS, Store, interrupt, interrupt_at
from tests.model.interruption import points_of
from tests.writes import doubles

#: An interrupt that comes in a finalizer goes no further: Python reports it and continues.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

POINTS = 2


def some(rng: random.Random, points: Sequence[int]) -> Sequence[int]:
    return rng.sample(points, min(POINTS, len(points)))


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "call"), PAIRS)
def test_what_follows_an_interrupted_call_works_as_before(scheme: str, call: str) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    try:
        interrupt(scheme, call, functools.partial(some, random.Random(seed)))
    except AssertionError as error:
        raise AssertionError(f"repeat it with random.Random({seed}): {error}") from error


class UnsafeAttempt:
    """Takes a lock by a call of our own, after which an interrupt may come."""

    def __init__(self, lock: Any, timeout_s: float | None = 0.0) -> None:
        self._lock = lock
        self._timeout_s = -1.0 if timeout_s is None else timeout_s

    def __bool__(self) -> bool:
        if not self._timeout_s:
            return bool(self._lock.acquire(False))
        return bool(self._lock.acquire(True, self._timeout_s))


# A Python function at the end of a block, which an interrupt may come before.
unsafely_locked = contextlib.contextmanager(root.locked.__wrapped__)  # type: ignore[attr-defined]

BUGS: dict[str, tuple[str, str, Any]] = {
    "the drain": ("file", "append", mock.patch.object(drain, "Attempt", UnsafeAttempt)),
    "a partition": (
        "file",
        "append",
        mock.patch.object(partition_writer, "Attempt", UnsafeAttempt),
    ),
    "a database": ("sqlite", "append", mock.patch.object(store_lock, "Attempt", UnsafeAttempt)),
    "cursors": ("file", "ack", mock.patch.object(keys, "locked", unsafely_locked)),
}


@pytest.mark.heavy
@pytest.mark.parametrize("bug", BUGS)
def test_a_lock_that_is_taken_unsafely_is_found(tmp_path: Path, bug: str) -> None:
    scheme, call, planted = BUGS[bug]
    # The core takes these locks by itself; the bugs are in what Python does without it.
    plain = mock.patch.object(partition_writer, "compiled_lane", return_value=None)
    with planted, plain, mock.patch.object(doubles, "PATIENCE_S", 2.0):
        store = Store(scheme, tmp_path)
        store.append()
        points = points_of(lambda: CALLS[call](store))

        with pytest.raises(AssertionError, match="interrupted at"):
            # Backwards, since most of them are found where a block is left.
            interrupt_each(store, call, points[::-1])


def interrupt_each(store: Store, call: str, points: Sequence[int]) -> None:
    for number in points:
        interrupt_at(store, CALLS[call], number)
