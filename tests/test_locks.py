"""Taking and releasing locks, interrupted at every bytecode."""

import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest

from strandline.locks import Attempt, Latch, holding, start_thread
from tests.model.interruption import Interruption

LOCK = threading.Lock()
ATTEMPT = Attempt(LOCK)


def attempted() -> None:
    if ATTEMPT:
        try:
            len("block")
        finally:
            LOCK.release()


def attempted_in_time() -> None:
    if Attempt(LOCK, 1.0):
        try:
            len("block")
        finally:
            LOCK.release()


def in_block() -> None:
    with LOCK:
        len("block")


def taken_and_released() -> Iterator[int]:
    if not Attempt(LOCK):
        raise ValueError("the lock is taken")
    try:
        yield 5
    finally:
        LOCK.release()


def held() -> None:
    with holding(taken_and_released)() as number:
        assert number == 5


def held_by_contextlib() -> None:
    with contextlib.contextmanager(taken_and_released)():
        len("block")


def acquired() -> None:
    if LOCK.acquire(False):
        try:
            len("block")
        finally:
            LOCK.release()


def leaks(action: Callable[[], None]) -> list[str]:
    """Interrupt `action` before each of its bytecodes; return where that left the lock taken."""
    whole = Interruption()
    whole.run(action)
    assert whole.error is None
    places = []
    interruptions = [Interruption(number) for number in range(1, whole.count + 1)]
    for interruption in interruptions:
        interruption.run(action)
        assert isinstance(interruption.error, KeyboardInterrupt)
        if LOCK.locked():
            places.append(interruption.place)
            LOCK.release()
        # A reference to the interrupt keeps what its traceback refers to.
    for interruption in interruptions:
        with contextlib.suppress(RuntimeError):
            interruption.error = None
    return places


@pytest.mark.parametrize("action", [attempted, attempted_in_time, in_block, held])
def test_no_interrupt_leaves_the_lock_taken(action: Callable[[], None]) -> None:
    assert leaks(action) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("action", [acquired, held_by_contextlib])
def test_the_usual_ways_to_take_a_lock_are_not_safe(action: Callable[[], None]) -> None:
    """Why the others are there: if this fails, a newer Python has made them needless."""
    assert leaks(action)


def test_an_attempt_takes_a_free_lock_and_no_other() -> None:
    lock = threading.Lock()
    attempt = Attempt(lock)

    assert attempt
    assert lock.locked()
    assert not attempt
    assert not Attempt(lock, 0.001)
    assert not Attempt(lock, -1.0)

    lock.release()
    assert Attempt(lock, None)


def test_a_holding_releases_whatever_its_block_raises() -> None:
    with pytest.raises(KeyError), holding(taken_and_released)():
        raise KeyError

    assert not LOCK.locked()
    with LOCK, pytest.raises(ValueError, match="taken"), holding(taken_and_released)():
        pass


def test_a_latch_wakes_all_and_stays_set() -> None:
    latch = Latch()
    assert not latch.wait(0.001)
    woken: list[bool] = []
    threads = [threading.Thread(target=lambda: woken.append(latch.wait(10.0))) for _ in range(3)]
    for thread in threads:
        thread.start()

    latch.set()

    for thread in threads:
        thread.join()
    assert woken == [True] * 3
    assert latch.is_set()
    assert latch.wait(0)


def test_an_interrupt_while_a_thread_is_started_is_raised_as_such() -> None:
    class Interrupted(threading.Thread):
        """Started as Python does it when an interrupt comes while it takes a lock again."""

        def start(self) -> None:
            try:
                raise KeyboardInterrupt
            finally:
                threading.Lock().release()

    with pytest.raises(KeyboardInterrupt):
        start_thread(Interrupted())
    started = threading.Thread(target=int)
    start_thread(started)
    started.join()
    with pytest.raises(RuntimeError, match="once"):
        start_thread(started)
