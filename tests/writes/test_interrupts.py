"""Interrupts: whatever hits the caller who works for others, everyone learns one outcome."""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from functools import partial
from types import FrameType

import pytest

from strandline.testing import FakeClock
from strandline.values import Durability, FailedError, StrandlineError, UnknownError
from strandline.writes import Settings, WriteReceipt
from tests.model.interruption import Interruption
from tests.writes.conftest import OpenStore
from tests.writes.doubles import PATIENCE_S, Call, Put, SharedRows, Step, Store

#: An interrupt that comes in a finalizer goes no further: Python reports it and continues.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

APPLIED, WRITTEN, DURABLE = Durability

INTERRUPTS = [KeyboardInterrupt(), SystemExit(1), MemoryError()]
#: What stands in for a store and a clock; their locks are not ours.
DOUBLES = ("/writes/doubles.py", "/testing/fake_clock.py")
STEPS = ["apply", "size", "freeze", "flush", "sync"]


def outcomes(receipts: list[WriteReceipt[int]]) -> list[object]:
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


def settled(receipt: WriteReceipt[int]) -> object:
    try:
        return receipt.wait(APPLIED, PATIENCE_S)
    except StrandlineError as error:
        return "nothing yet" if "wait again" in str(error) else type(error)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("interrupt", INTERRUPTS, ids=repr)
def test_an_interrupted_drain_settles_all_writes(
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

    held.release()

    assert working.error() is interrupt
    for error in (other.error() for other in others):
        assert isinstance(error, FailedError)
        assert error.cause is interrupt


async def awaited(store: Store) -> WriteReceipt[int]:
    receipt = await store.channel.write_on_loop(Put("c", 3))
    await receipt.wait_on_loop(DURABLE)
    return receipt


@pytest.mark.parametrize("interrupt", INTERRUPTS, ids=repr)
@pytest.mark.parametrize("step", ["enter", "apply", "freeze", "flush", "leave"])
def test_an_interrupted_bracket_settles_all_writes_and_is_left(
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


def test_an_interrupt_before_the_bracket_is_entered_costs_no_write(
    open_store: OpenStore,
) -> None:
    """Nothing was applied yet, so another thread enters and continues."""
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


def test_a_waiter_that_is_interrupted_at_the_lock_passes_the_work_on(
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


@pytest.mark.slow
@pytest.mark.parametrize("is_bracketed", [False, True])
def test_an_interrupt_at_any_place_of_a_drain_leaves_no_write_without_an_outcome(
    *, is_bracketed: bool
) -> None:
    def drain(interruption: Interruption) -> None:
        shared = SharedRows() if is_bracketed else None
        store = Store("one", "two", clock=FakeClock(), shared=shared)
        channels = [store.coordinator.channel(name) for name in ("one", "two")]
        receipts = [c.try_write(Put(f"{c.name}{n}", n)) for n in range(2) for c in channels]

        interruption.run(store.coordinator.start)
        Call(store.coordinator.stop).thread.join(PATIENCE_S)

        assert all(receipt.is_settled for receipt in receipts), interruption.place
        assert shared is None or shared.lock(store.clock, 0), interruption.place

    assert interrupt_everywhere(drain) > 50


@pytest.mark.slow
@pytest.mark.parametrize("level", [APPLIED, WRITTEN, DURABLE])
@pytest.mark.parametrize("is_bracketed", [False, True])
def test_an_interrupt_at_any_place_of_a_write_leaves_nothing_locked(
    *, is_bracketed: bool, level: Durability
) -> None:
    def write(interruption: Interruption) -> None:
        store = Store(clock=FakeClock(), shared=SharedRows() if is_bracketed else None)
        store.coordinator.start()

        interruption.run(lambda: store.channel.write(Put("a", 1), level))

        with contextlib.suppress(FailedError):
            Call(lambda: store.channel.write(Put("b", 2), WRITTEN, PATIENCE_S)).result()
        with contextlib.suppress(FailedError):
            Call(store.coordinator.stop).result()
        assert not store.coordinator.metrics().queue_depth["main"], interruption.place

    assert interrupt_everywhere(write) > 5


@pytest.mark.slow
def test_an_interrupt_at_any_place_of_a_bracketed_write_leaves_the_store_to_others() -> None:
    def write(interruption: Interruption) -> None:
        shared = SharedRows()
        store, other = (Store(clock=FakeClock(), shared=shared) for _ in range(2))
        store.coordinator.start()
        other.coordinator.start()

        interruption.run(partial(store.channel.write, Put("a", 1), WRITTEN))

        assert interruption.error is None or isinstance(interruption.error, KeyboardInterrupt)
        behind = other.channel.write(Put("b", 2), WRITTEN, 0)
        assert behind.wait() == len(shared.rows) - 1, interruption.place
        with contextlib.suppress(FailedError):
            Call(store.coordinator.stop).result()
        other.coordinator.stop()

    assert interrupt_everywhere(write) > 10


@pytest.mark.slow
def test_an_interrupted_stop_can_be_repeated() -> None:
    def stop(interruption: Interruption) -> None:
        store = Store(clock=FakeClock())
        store.coordinator.start()
        receipt = store.channel.write(Put("a", 1))

        interruption.run(store.coordinator.stop)

        with contextlib.suppress(FailedError):
            Call(store.coordinator.stop).result()
        assert receipt.is_settled, interruption.place

    assert interrupt_everywhere(stop) > 50


def interrupt_everywhere(scenario: Callable[[Interruption], None]) -> int:
    """Run it once in peace and once for each place; return how many places there are."""
    peace = Interruption(spared=DOUBLES)
    scenario(peace)
    assert peace.error is None
    for number in peace.points:
        scenario(Interruption(number, DOUBLES))
    return len(peace.points)
