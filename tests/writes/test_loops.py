"""Event loops: everything that can be waited on can be awaited, and no loop is blocked."""

import asyncio
import gc
import logging

import pytest

from strandline.values import (
    ClosedError,
    Durability,
    FailedError,
    RejectedError,
    UnavailableError,
)
from strandline.writes import Settings
from strandline.writes.waiter import LoopWaiter, ThreadWaiter
from tests.patience import wait_collected
from tests.writes.conftest import OpenStore
from tests.writes.doubles import PATIENCE_S, Call, Put, Row, SharedRows, Step, Store

APPLIED, WRITTEN, DURABLE = Durability


async def until_held(step: Step) -> None:
    """Run other tasks until a call is held inside `step`."""
    await asyncio.to_thread(step.wait_held)


def test_a_receipt_can_be_awaited(open_store: OpenStore) -> None:
    store = open_store()

    async def write() -> tuple[int, int, int]:
        receipt = await store.channel.write_on_loop(Put("a", 1))
        return (
            await receipt,
            await receipt.wait_on_loop(WRITTEN),
            await receipt.wait_on_loop(DURABLE),
        )

    assert asyncio.run(write()) == (0, 0, 0)
    assert store.rows == [Row("a", 0, 1)]
    assert store.flusher.synced == 1


def test_an_awaited_refusal_is_raised(open_store: OpenStore) -> None:
    store = open_store()

    async def write() -> None:
        await store.channel.try_write(Put("a", -1))

    with pytest.raises(RejectedError):
        asyncio.run(write())


@pytest.mark.parametrize("step", ["freeze", "flush", "sync"])
def test_no_wait_blocks_the_loop(open_store: OpenStore, step: str) -> None:
    """With the work held half-way, another coroutine still runs and writes."""
    store = open_store()
    held: Step = getattr(store.steps, step)
    held.hold()

    async def main() -> list[str]:
        seen: list[str] = []

        async def slow() -> None:
            receipt = store.channel.try_write(Put("a", 1))
            await receipt.wait_on_loop(DURABLE)
            seen.append("slow")

        async def quick() -> None:
            await until_held(held)
            for value in range(3):
                store.channel.try_write(Put("b", value))
            seen.append("quick")
            held.release()

        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
            tasks.create_task(slow())
            tasks.create_task(quick())
        return seen

    assert asyncio.run(main()) == ["quick", "slow"]
    assert store.steps.flush.calls >= 1


def test_a_write_on_a_loop_does_not_wait_for_a_drain_elsewhere(open_store: OpenStore) -> None:
    store = open_store()
    store.steps.apply.hold()
    busy = Call(lambda: store.channel.write(Put("a", 1)))
    store.steps.apply.wait_held()

    async def main() -> int:
        async with asyncio.timeout(PATIENCE_S):
            receipt = await store.channel.write_on_loop(Put("b", 2))
            store.steps.apply.release()
            await receipt
            return receipt.epoch()

    assert asyncio.run(main()) == 2
    assert busy.result().epoch() == 1


def test_a_full_queue_is_awaited(open_store: OpenStore) -> None:
    store = open_store(settings=Settings(queue_capacity=1), started=False)
    store.channel.try_write(Put("a", 1))

    async def main() -> int:
        async with asyncio.timeout(PATIENCE_S):
            writing = asyncio.create_task(store.channel.write_on_loop(Put("b", 2)))
            await asyncio.sleep(0)
            assert not writing.done()
            store.coordinator.start()
            return await (await writing)

    assert asyncio.run(main()) == 1


def test_a_full_queue_hands_the_write_back_to_the_loop(open_store: OpenStore) -> None:
    store = open_store(settings=Settings(queue_capacity=1), started=False)
    store.channel.try_write(Put("a", 1))
    write = Put("b", 2)

    with pytest.raises(UnavailableError) as caught:
        asyncio.run(store.channel.write_on_loop(write, timeout_s=0.001))

    assert caught.value.write is write
    assert store.coordinator.metrics().backpressure == 1


def test_a_cancelled_wait_for_room_writes_nothing(open_store: OpenStore) -> None:
    store = open_store(settings=Settings(queue_capacity=1), started=False)
    store.channel.try_write(Put("a", 1))

    async def main() -> None:
        writing = asyncio.create_task(store.channel.write_on_loop(Put("b", 2)))
        await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing

    asyncio.run(main())
    store.coordinator.stop()

    assert store.rows == [Row("a", 0, 1)]


def test_several_loops_await_one_receipt(open_store: OpenStore) -> None:
    store = open_store()
    store.steps.flush.hold()
    receipt = store.channel.write(Put("a", 1))

    async def on_loop() -> int:
        async with asyncio.timeout(PATIENCE_S):
            return await receipt.wait_on_loop(DURABLE)

    loops = [Call(lambda: asyncio.run(on_loop())) for _ in range(4)]
    thread = Call(lambda: receipt.wait(DURABLE, PATIENCE_S))
    store.steps.flush.wait_held()

    store.steps.flush.release()

    assert [call.result() for call in (*loops, thread)] == [0] * 5
    assert store.steps.flush.calls == 1


def test_several_loops_await_one_outcome(open_store: OpenStore) -> None:
    store = open_store(started=False)
    receipt = store.channel.try_write(Put("a", 1))
    waiting = [Step() for _ in range(3)]

    async def on_loop(step: Step) -> int:
        task = asyncio.ensure_future(receipt.wait_on_loop())
        await asyncio.sleep(0)
        step.take()
        async with asyncio.timeout(PATIENCE_S):
            return await task

    loops = [Call(lambda step=step: asyncio.run(on_loop(step))) for step in waiting]  # type: ignore[misc]
    for step in waiting:
        step.wait_calls(1)

    store.coordinator.start()

    assert [call.result() for call in loops] == [0, 0, 0]


@pytest.mark.parametrize("level", [APPLIED, DURABLE])
def test_cancelling_a_wait_changes_nothing_else(open_store: OpenStore, level: Durability) -> None:
    store = open_store(started=False)
    receipt = store.channel.try_write(Put("a", 1))

    async def main() -> int:
        cancelled = asyncio.create_task(receipt.wait_on_loop(level))
        durable_waiters = asyncio.create_task(receipt.wait_on_loop(level))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert store.channel.depth == 1
        store.coordinator.start()
        async with asyncio.timeout(PATIENCE_S):
            return await durable_waiters

    assert asyncio.run(main()) == 0
    assert receipt.epoch(PATIENCE_S) == 1


def test_cancelling_a_wait_for_a_sync_does_not_cancel_the_sync(open_store: OpenStore) -> None:
    store = open_store()
    store.steps.sync.hold()
    receipt = store.channel.write(Put("a", 1))

    async def main() -> None:
        waiting = asyncio.create_task(receipt.wait_on_loop(DURABLE))
        await until_held(store.steps.sync)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())
    store.steps.sync.release()

    receipt.wait(DURABLE, PATIENCE_S)
    assert store.steps.sync.calls == 1


def test_an_awaited_timeout_takes_a_queued_write_back(open_store: OpenStore) -> None:
    store = open_store(started=False)
    receipt = store.channel.try_write(Put("a", 1))

    with pytest.raises(UnavailableError) as caught:
        asyncio.run(receipt.wait_on_loop(WRITTEN, timeout_s=0.001))

    assert caught.value.write == Put("a", 1)
    assert store.channel.depth == 0


def test_an_awaited_timeout_leaves_a_taken_write_alone(open_store: OpenStore) -> None:
    store = open_store()
    store.steps.flush.hold()
    receipt = store.channel.try_write(Put("a", 1))

    with pytest.raises(UnavailableError) as caught:
        asyncio.run(receipt.wait_on_loop(WRITTEN, timeout_s=0.001))

    assert caught.value.write is None
    store.steps.flush.release()
    assert receipt.wait(WRITTEN, PATIENCE_S) == 0


def test_a_loop_that_was_closed_is_harmless(open_store: OpenStore) -> None:
    """Waking a loop that is closed is no error for the thread that wakes."""
    store = open_store(started=False)
    receipt = store.channel.try_write(Put("a", 1))
    loop = asyncio.new_event_loop()
    orphan = loop.create_task(receipt.wait_on_loop())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()

    store.coordinator.start()

    assert receipt.epoch(PATIENCE_S) == 1
    orphan.get_coro().close()


def test_the_stop_ends_an_awaited_wait(open_store: OpenStore) -> None:
    store = open_store(started=False)
    receipt = store.channel.try_write(Put("a", 1))

    async def main() -> None:
        waiting = asyncio.create_task(receipt.wait_on_loop(DURABLE))
        await asyncio.sleep(0)
        await asyncio.to_thread(lambda: store.coordinator.stop(drain=False))
        async with asyncio.timeout(PATIENCE_S):
            await waiting

    with pytest.raises(ClosedError):
        asyncio.run(main())


def test_a_flush_can_be_requested_and_awaited_on_a_loop(open_store: OpenStore) -> None:
    store = open_store()

    async def main() -> None:
        store.channel.try_write(Put("a", 1))
        async with asyncio.timeout(PATIENCE_S):
            await store.channel.flush(durable=True).wait_on_loop(DURABLE)

    asyncio.run(main())

    assert store.flusher.synced == 1


def test_many_coroutines_share_their_syncs(open_store: OpenStore) -> None:
    store = open_store()
    store.steps.sync.hold()

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
            tasks.create_task(durable(store, 0))
            await until_held(store.steps.sync)
            for value in range(1, 16):
                tasks.create_task(durable(store, value))
            await asyncio.sleep(0)
            await asyncio.to_thread(store.channel.flush().wait, WRITTEN, PATIENCE_S)
            store.steps.sync.release()

    asyncio.run(main())

    assert len(store.rows) == 16
    assert store.steps.sync.calls == 2


async def durable(store: Store, value: int) -> None:
    receipt = await store.channel.write_on_loop(Put(f"k{value}", value))
    await receipt.wait_on_loop(DURABLE)


def test_what_many_coroutines_hand_over_shares_a_bracket_and_a_sync(open_store: OpenStore) -> None:
    store = open_store(shared=SharedRows())
    store.steps.sync.hold()

    async def handed_over(value: int) -> int:
        return await store.channel.hand_over(Put(f"k{value}", value)).wait_on_loop(DURABLE)

    async def main() -> list[int]:
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
            handing = [tasks.create_task(handed_over(0))]
            await until_held(store.steps.sync)
            handing += [tasks.create_task(handed_over(value)) for value in range(1, 16)]
            await asyncio.sleep(0)
            assert store.channel.depth == 15
            store.steps.sync.release()
        return [task.result() for task in handing]

    assert asyncio.run(main()) == list(range(16))
    assert store.steps.enter.calls == 2
    assert store.steps.sync.calls == 2
    assert store.flusher.synced == 16


def test_a_failed_sync_is_raised_by_all_that_handed_over(open_store: OpenStore) -> None:
    store = open_store(shared=SharedRows())
    store.steps.sync.hold()
    store.steps.sync.fail_next(OSError("the disk is gone"))

    async def main() -> list[object]:
        receipts = [store.channel.hand_over(Put(f"k{value}", value)) for value in range(3)]
        waits = asyncio.gather(
            *(each.wait_on_loop(DURABLE) for each in receipts), return_exceptions=True
        )
        await until_held(store.steps.sync)
        store.steps.sync.release()
        async with asyncio.timeout(PATIENCE_S):
            return list(await waits)

    assert all(isinstance(outcome, FailedError) for outcome in asyncio.run(main()))


def test_a_coroutine_that_gives_up_does_not_keep_the_others_waiting(open_store: OpenStore) -> None:
    store = open_store(shared=SharedRows())
    store.steps.sync.hold()
    receipts = [store.channel.hand_over(Put(f"k{value}", value)) for value in range(2)]

    async def main() -> int:
        waiting = [asyncio.create_task(receipt.wait_on_loop(DURABLE)) for receipt in receipts]
        await until_held(store.steps.sync)
        waiting[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]
        store.steps.sync.release()
        async with asyncio.timeout(PATIENCE_S):
            return await waiting[1]

    assert asyncio.run(main()) == 1
    assert receipts[0].wait(DURABLE, PATIENCE_S) == 0


def test_a_slow_sync_does_not_hand_back_what_was_handed_over(open_store: OpenStore) -> None:
    """No other process holds the store, so there is no reason to."""
    store = open_store(shared=SharedRows(), settings=Settings(bracket_timeout_s=0.01))
    store.steps.sync.hold()

    async def main() -> int:
        store.channel.hand_over(Put("a", 1))
        await until_held(store.steps.sync)
        async with asyncio.timeout(PATIENCE_S):
            return await store.channel.hand_over(Put("b", 2)).wait_on_loop(WRITTEN)

    assert asyncio.run(main()) == 1


@pytest.mark.parametrize("shared", [None, SharedRows()], ids=["alone", "shared"])
def test_what_was_handed_over_becomes_durable_though_no_caller_waits(
    open_store: OpenStore, shared: SharedRows | None
) -> None:
    store = open_store(shared=shared)

    store.channel.hand_over(Put("a", 1))

    store.steps.sync.wait_calls(1)
    store.coordinator.stop(durable=False)
    assert store.flusher.synced == 1


@pytest.mark.slow
@pytest.mark.parametrize("is_bracketed", [False, True])
def test_an_error_that_is_never_awaited_is_logged_once(
    open_store: OpenStore, caplog: pytest.LogCaptureFixture, *, is_bracketed: bool
) -> None:
    store = open_store(shared=SharedRows() if is_bracketed else None)
    store.steps.apply.fail_next(ValueError("this is never awaited"))

    async def forgets() -> None:
        store.channel.try_write(Put("a", 1))

    asyncio.run(forgets())
    store.coordinator.stop(durable=False)

    def found() -> list[logging.LogRecord]:
        return [each for each in caplog.records if "this is never awaited" in each.getMessage()]

    wait_collected(found)
    logged = found()
    assert [(each.name, each.levelname) for each in logged] == [("strandline", "ERROR")]


@pytest.mark.slow
def test_an_error_that_was_raised_is_not_logged(
    open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store()
    store.steps.apply.fail_next(ValueError("this was looked at"))

    async def looks() -> None:
        with pytest.raises(RejectedError):
            await store.channel.try_write(Put("a", 1))

    asyncio.run(looks())
    store.steps.apply.fail_next(ValueError("this was raised"))
    with pytest.raises(RejectedError):
        store.channel.write(Put("a", 1), Durability.WRITTEN)
    gc.collect()

    messages = [each.getMessage() for each in caplog.records]
    assert not [text for text in messages if "this was" in text]


def _waiters() -> int:
    """Return how many waits the process keeps, those of other tests as well."""
    gc.collect()
    # By its type: what stands in for an object may load it when it is looked at.
    return sum(type(each) in {LoopWaiter, ThreadWaiter} for each in gc.get_objects())


def test_waits_that_are_over_are_not_kept(open_store: OpenStore) -> None:
    before = _waiters()
    store = open_store(settings=Settings(queue_capacity=1), started=False)
    store.channel.try_write(Put("a", 1))
    subscriber = store.coordinator.subscribe()
    subscriber.initialize()

    async def give_up(count: int) -> None:
        for _ in range(count):
            with pytest.raises(UnavailableError):
                await subscriber.recv_on_loop(0)
            with pytest.raises(UnavailableError):
                await store.channel.write_on_loop(Put("b", 2), timeout_s=0)

    for _ in range(20):
        with pytest.raises(UnavailableError):
            store.channel.write(Put("b", 2), timeout_s=0.001)
    asyncio.run(give_up(20))

    assert _waiters() < before + 20


def test_an_awaited_write_is_handed_back_while_another_thread_is_busy(
    open_store: OpenStore,
) -> None:
    store = open_store(shared=SharedRows())
    store.steps.apply.hold()
    busy = Call(lambda: store.channel.write(Put("a", 1)))
    store.steps.apply.wait_held()

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await store.channel.try_write(Put("b", 2), timeout_s=0.01)

    with pytest.raises(UnavailableError, match="not taken in time") as caught:
        asyncio.run(main())

    assert caught.value.write == Put("b", 2)
    store.steps.apply.release()
    assert busy.result().epoch() == 1
