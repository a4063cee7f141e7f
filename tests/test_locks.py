"""Taking and releasing locks, interrupted at every bytecode."""

import threading
from collections.abc import Iterator

import pytest

from strandline.locks import Attempt, holding
from tests.model.interruption import Interruption


def bytecodes(action: object) -> int:
    interruption = Interruption()
    interruption.run(action)  # type: ignore[arg-type]
    return interruption.count


def test_an_attempt_takes_a_free_lock_and_no_other() -> None:
    lock = threading.Lock()
    attempt = Attempt(lock)

    assert attempt
    assert lock.locked()
    assert not attempt
    assert not Attempt(lock, 0.001)

    lock.release()
    assert Attempt(lock, -1)
