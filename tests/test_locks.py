"""Taking and releasing locks, interrupted at every bytecode."""

import threading

from strandline.locks import Attempt
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
