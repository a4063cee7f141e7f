"""Interrupts: whatever hits the caller who works for others, everyone learns one outcome."""

import asyncio
import contextlib
import linecache
import signal
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from strandline.testing import FakeClock
from strandline.values import Durability, FailedError, StrandlineError, UnknownError
from strandline.writes import Receipt, Settings
from tests.writes.conftest import OpenStore
from tests.writes.doubles import PATIENCE_S, Call, Put, SharedRows, Step, Store

APPLIED, WRITTEN, DURABLE = Durability

INTERRUPTS = [KeyboardInterrupt(), SystemExit(1), MemoryError()]
STEPS = ["apply", "size", "freeze", "flush", "sync"]


def outcomes(receipts: list[Receipt[int]]) -> list[object]:
    """Return what each receipt says when asked twice: its result, or the class of its error."""
    told: list[object] = []
    for receipt in receipts:
        first, second = (settled(receipt) for _ in range(2))
        assert first == second != "nothing yet"
        told.append(first)
    return told


def join_failed(step: Step) -> None:
    """Wait for threads to die of what `step` raised, so that no later test hears of it."""
    step.wait_calls(1)
    for thread in step.failed_in:
        thread.join(PATIENCE_S)


def settled(receipt: Receipt[int]) -> object:
    try:
        return receipt.wait(APPLIED, PATIENCE_S)
    except StrandlineError as error:
        return "nothing yet" if "wait again" in str(error) else type(error)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("interrupt", INTERRUPTS, ids=repr)
def test_an_interrupted_drain_answers_everyone(
    open_store: OpenStore, interrupt: BaseException, step: str
) -> None:
    store = open_store("one", "two", settings=Settings(flush_bytes=3), started=False)
    one, two = store.coordinator.channel("one"), store.coordinator.channel("two")
    receipts = [c.try_write(Put("a", n)) for n in range(4) for c in (one, two)]
    flush = two.flush(durable=True)
    getattr(store.steps, step).fail_next(interrupt, after=1 if step == "apply" else 0)

    drained = Call(store.coordinator.start)
    drained.thread.join(PATIENCE_S)

    assert drained.is_done
    assert len(outcomes(receipts)) == 8
    if not isinstance(interrupt, Exception):
        join_failed(getattr(store.steps, step))
    fails = step != "apply" or not isinstance(interrupt, Exception)
    if not fails:
        flush.wait(DURABLE, PATIENCE_S)
        return
    with pytest.raises(FailedError) as caught:
        flush.wait(DURABLE, PATIENCE_S)
    assert caught.value.cause is interrupt
    with pytest.raises(FailedError):
        one.write(Put("a", 9))


@pytest.mark.parametrize("step", ["apply", "size", "freeze"])
def test_the_write_that_was_interrupted_is_unknown_and_the_rest_failed(
    open_store: OpenStore, step: str
) -> None:
    store = open_store(settings=Settings(flush_bytes=1), started=False)
    hit, behind = (store.channel.try_write(Put("a", n)) for n in (1, 2))
    interrupt = KeyboardInterrupt()
    getattr(store.steps, step).fail_next(interrupt)

    drained = Call(store.coordinator.start)

    assert drained.error() is interrupt
    assert outcomes([hit, behind]) == [UnknownError, FailedError]
    assert store.steps.apply.calls == 1


@pytest.mark.parametrize("step", ["flush", "sync"])
def test_an_interrupted_flush_or_sync_reaches_the_others_as_a_failure(
    open_store: OpenStore, step: str
) -> None:
    store = open_store()
    interrupt = KeyboardInterrupt()
    held = getattr(store.steps, step)
    held.fail_next(interrupt)
    held.hold()
    working = Call(lambda: store.channel.write(Put("a", 1), DURABLE))
    held.wait_held()
    others = [Call(lambda: store.channel.write(Put("b", 2), DURABLE)) for _ in range(3)]
    others += [Call(lambda: asyncio.run(awaited(store))) for _ in range(2)]
    store.steps.apply.wait_calls(6)

    held.let_go()

    assert working.error() is interrupt
    for error in (other.error() for other in others):
        assert isinstance(error, FailedError)
        assert error.cause is interrupt


async def awaited(store: Store) -> Receipt[int]:
    receipt = await store.channel.write_on_loop(Put("c", 3))
    await receipt.reached(DURABLE)
    return receipt


@pytest.mark.parametrize("interrupt", INTERRUPTS, ids=repr)
@pytest.mark.parametrize("step", ["enter", "apply", "freeze", "flush", "leave"])
def test_an_interrupted_bracket_answers_everyone_and_is_left(
    open_store: OpenStore, interrupt: BaseException, step: str
) -> None:
    shared = SharedRows()
    store, other = open_store(shared=shared, started=False), open_store(shared=shared)
    receipts = [store.channel.try_write(Put(f"k{n}", n)) for n in range(4)]
    getattr(store.steps, step).fail_next(interrupt, after=2 if step == "apply" else 0)

    drained = Call(store.coordinator.start)
    drained.thread.join(PATIENCE_S)

    assert drained.is_done
    assert len(outcomes(receipts)) == 4
    assert other.channel.write(Put("other", 1), WRITTEN, PATIENCE_S).level is WRITTEN


def test_an_interrupt_before_the_bracket_is_entered_costs_nobody_a_write(
    open_store: OpenStore,
) -> None:
    """Nothing was applied yet, so somebody else enters and goes on."""
    store = open_store(shared=SharedRows(), started=False)
    receipts = [store.channel.try_write(Put(f"k{n}", n)) for n in range(4)]
    interrupt = KeyboardInterrupt()
    store.steps.enter.fail_next(interrupt)

    drained = Call(store.coordinator.start)

    assert drained.error() is interrupt
    assert outcomes(receipts) == [0, 1, 2, 3]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_interrupt_in_the_thread_that_stands_by_does_not_end_its_work(
    open_store: OpenStore,
) -> None:
    """The work that was passed on to it is not lost with it."""
    shared = SharedRows()
    store = open_store(shared=shared)
    store.steps.enter.fail_next(SystemExit(1), after=1)
    assert shared.lock(store.clock, 0)

    receipt = store.channel.try_write(Put("a", 1))
    store.steps.enter.wait_calls(3)
    shared.unlock()

    async def outcome() -> int:
        async with asyncio.timeout(PATIENCE_S):
            return await receipt

    assert asyncio.run(outcome()) == 0
    join_failed(store.steps.enter)


def test_an_interrupted_wait_changes_nothing(open_store: OpenStore) -> None:
    """A signal that ends a wait leaves the write where it is."""
    store = open_store(started=False)
    receipt = store.channel.try_write(Put("a", 1))

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    try:
        with pytest.raises(KeyboardInterrupt):
            receipt.wait(APPLIED, PATIENCE_S)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)

    assert store.channel.depth == 1
    store.coordinator.start()
    assert receipt.epoch(PATIENCE_S) == 1


def test_a_waiter_that_is_interrupted_at_the_lock_passes_the_work_to_somebody_else(
    open_store: OpenStore,
) -> None:
    clock = FakeClock()
    shared = SharedRows()
    store = open_store(shared=shared, clock=clock)
    store.channel.pause()
    receipt = store.channel.try_write(Put("a", 1))
    waiting = Call(receipt.wait)
    clock.wait_for_waiters(1)
    assert shared.lock(clock, 0)
    interrupt = KeyboardInterrupt()
    store.steps.enter.fail_next(interrupt, after=1)

    store.channel.resume()

    assert waiting.error() is interrupt
    shared.unlock()
    store.steps.apply.wait_calls(1)


#: Left out: the trace can stop between taking a lock or the bracket and being bound to
#: let it go, and in the middle of letting go. Python offers no way to close that gap.
UNSAFE = (
    "with ",
    "try:",
    "self.lock.release()",
    "drain.lock.release()",
    "self.let_go()",
    "self._is_inside = True",
    "self._bracket.leave()",
)


class Interruption:
    """Raises KeyboardInterrupt before the n-th line that one thread runs in the coordinator."""

    def __init__(self, line: int) -> None:
        self._lines_left = line
        self.place = ""

    def run(self, action: Callable[[], object]) -> None:
        sys.settrace(self._trace)
        try:
            action()
        finally:
            sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        file = frame.f_code.co_filename
        if "/strandline/writes/" not in file:
            return None
        if event == "line" and not self.place:
            self._lines_left -= 1
            text = linecache.getline(file, frame.f_lineno).strip()
            if self._lines_left <= 0 and not text.startswith(UNSAFE):
                self.place = f"{file}:{frame.f_lineno}: {text}"
                raise KeyboardInterrupt
        return self._trace


@pytest.mark.parametrize("is_bracketed", [False, True])
def test_an_interrupt_at_any_line_of_a_drain_leaves_nobody_without_an_outcome(
    *, is_bracketed: bool
) -> None:
    places: list[str] = []
    while not places or places[-1]:
        shared = SharedRows() if is_bracketed else None
        store = Store("one", "two", clock=FakeClock(), shared=shared)
        channels = [store.coordinator.channel(name) for name in ("one", "two")]
        receipts = [c.try_write(Put(f"{c.name}{n}", n)) for n in range(2) for c in channels]
        interruption = Interruption(len(places) + 1)

        Call(partial(interruption.run, store.coordinator.start)).thread.join(PATIENCE_S)
        Call(store.coordinator.stop).thread.join(PATIENCE_S)

        places.append(interruption.place)
        assert all(receipt.is_settled for receipt in receipts), interruption.place
        assert shared is None or shared.lock(store.clock, 0), interruption.place

    assert len(set(places)) > 50


def test_an_interrupt_at_any_line_of_a_bracketed_write_leaves_the_store_to_others() -> None:
    places: list[str] = []
    while not places or places[-1]:
        shared = SharedRows()
        store, other = (Store(clock=FakeClock(), shared=shared) for _ in range(2))
        store.coordinator.start()
        other.coordinator.start()
        interruption = Interruption(len(places) + 1)
        write = partial(store.channel.write, Put("a", 1), WRITTEN)

        call = Call(partial(interruption.run, write))
        call.thread.join(PATIENCE_S)

        places.append(interruption.place)
        assert not interruption.place or isinstance(call.error(), KeyboardInterrupt)
        behind = other.channel.write(Put("b", 2), WRITTEN, 0)
        assert behind.wait() == len(shared.rows) - 1, interruption.place
        with contextlib.suppress(FailedError):
            Call(store.coordinator.stop).result()
        other.coordinator.stop()

    assert len(set(places)) > 40
