"""A log on an event loop: the same calls, awaited, and none of them blocks the loop."""

import asyncio
import gc
import logging
import threading
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.log import Log, Receipt
from strandline.log.handed_over import AppendQueue
from strandline.log.off_loop import in_thread
from strandline.log.settled import Settled
from strandline.stores.memory import MemoryStore
from strandline.values import Offset

PATIENCE_S = 30.0


@pytest.fixture(params=["memory", "file", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    scheme: str = request.param
    return "memory:" if scheme == "memory" else f"{scheme}:{tmp_path / 'events'}"


@pytest.fixture(params=["file", "sqlite"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{request.param}:{tmp_path / 'events'}"


def event(number: int) -> sl.Event:
    return sl.Event("order", {"n": number})


def numbers(log: Log, topic: str = "orders") -> list[int]:
    return [record.payload["n"] for record in log.read(topic, 0, 0)]


def run(scenario: Awaitable[Any]) -> Any:
    async def in_time() -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return await scenario

    return asyncio.run(in_time())


class GatedLog(Log):
    """Holds some of its calls up until they are let through."""

    def __init__(self, *gated: str, auto_create: bool = False) -> None:
        super().__init__(MemoryStore(), auto_create=auto_create)
        self.gated = gated
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.create_topic("orders")
        super().append("orders", event(0))

    def append(self, *args: Any, **terms: Any) -> Receipt:
        self._hold("append")
        return super().append(*args, **terms)

    def ack(self, *args: Any, **options: Any) -> Offset:
        self._hold("ack")
        return super().ack(*args, **options)

    def register(self, *args: Any, **options: Any) -> Any:
        self._hold("register")
        return super().register(*args, **options)

    def close(self) -> None:
        self._hold("close")
        super().close()

    def _hold(self, name: str) -> None:
        if name in self.gated:
            self.entered.set()
            assert self.gate.wait(PATIENCE_S)

    async def until_entered(self) -> None:
        assert await in_thread(self.entered.wait, PATIENCE_S)


# --- opening and closing ---


def test_async_with_gives_the_async_face_and_closes_the_log(url: str) -> None:
    async def scenario() -> sl.AsyncLog:
        async with sl.open(url) as log:
            await log.create_topic("orders")
            assert (await log.append("orders", event(0))).offset == 0
            assert log.durability_max is log.blocking.durability_max
        return log

    log = run(scenario())

    with pytest.raises(sl.ClosedError):
        log.blocking.append("orders", event(1))


def test_a_close_comes_after_what_was_handed_over(stored: str) -> None:
    async def scenario() -> None:
        async with sl.open(stored, auto_create=True) as log:
            for number in range(50):
                log.append("orders", event(number))

    run(scenario())

    with sl.open(stored) as log:
        assert numbers(log) == list(range(50))


def test_a_loop_continues_while_the_log_is_closed() -> None:
    log = GatedLog("close")

    async def scenario() -> None:
        closing = asyncio.create_task(sl.AsyncLog(log).close())
        await log.until_entered()
        log.gate.set()  # Never come to if the loop stood still.
        await closing

    run(scenario())


def test_a_close_that_is_cancelled_closes_the_log_all_the_same() -> None:
    log = GatedLog("close")

    async def scenario() -> None:
        closing = asyncio.create_task(sl.AsyncLog(log).close())
        await log.until_entered()
        closing.cancel()
        await asyncio.wait([closing])
        log.gate.set()

    run(scenario())

    with pytest.raises(sl.ClosedError):
        log.marks("orders", 0)


# --- appends ---


def test_appends_get_their_offsets_in_the_order_of_the_calls(url: str) -> None:
    async def scenario() -> list[int]:
        async with sl.open(url, auto_create=True) as log:
            receipts = [log.append("orders", event(n)) for n in range(20)]
            many = log.append_many("orders", [event(n) for n in range(20, 30)])
            last = await log.append("orders", event(30))
            await many
            offsets = [(await each).offset for each in receipts] + [each.offset for each in many]
            assert numbers(log.blocking) == list(range(31))
            return [*offsets, last.offset]

    assert run(scenario()) == list(range(31))


class GatedStore(MemoryStore):
    """Holds appends up that are made in a thread."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.gate = threading.Event()

    def append(self, *args: Any, may_wait: bool = True) -> Settled:
        if may_wait:
            self.entered.set()
            assert self.gate.wait(PATIENCE_S)
        return super().append(*args, may_wait=may_wait)


def test_an_append_waits_for_the_one_before_it_to_the_same_topic() -> None:
    store = GatedStore()
    log = Log(store)
    log.create_topic("orders")

    async def scenario() -> None:
        face = sl.AsyncLog(log)
        first = face.append("orders", event(0))
        assert await in_thread(store.entered.wait, PATIENCE_S)
        second = face.append("orders", event(1))
        third = face.append("orders", event(2))
        store.gate.set()
        for each in (first, second, third):
            await each

    run(scenario())

    assert numbers(log) == [0, 1, 2]


def test_an_append_that_overtakes_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    always_empty = property(lambda _: None, lambda *_: None)
    monkeypatch.setattr(AppendQueue, "last", always_empty, raising=False)
    with pytest.raises(AssertionError):
        test_an_append_waits_for_the_one_before_it_to_the_same_topic()


@pytest.mark.parametrize("turns", range(6))
def test_an_append_whose_task_is_cancelled_is_stored_once_or_never(url: str, turns: int) -> None:
    begun = []

    async def scenario() -> int:
        async with sl.open(url) as log:
            await log.create_topic("orders")

            async def append() -> None:
                receipt = log.append("orders", event(0), durability=log.durability_max)
                begun.append(receipt)
                await receipt

            task = asyncio.create_task(append())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            for receipt in begun:
                # The next look shows the outcome.
                assert (await receipt.wait()).offset == 0
            return (await log.marks("orders", 0)).high

    high = run(scenario())

    assert high == len(begun)
    assert len(begun) == (turns > 0)


def test_a_wait_that_times_out_leaves_the_append_on_its_way() -> None:
    log = GatedLog("append", auto_create=True)

    async def scenario() -> None:
        receipt = sl.AsyncLog(log).append("new", event(0))
        with pytest.raises(sl.UnavailableError, match="wait again"):
            await receipt.wait(timeout_s=0.001)
        with pytest.raises(sl.UnavailableError, match="await"):
            assert receipt.offset
        assert (receipt.is_settled, receipt.level) == (False, None)
        assert repr(receipt) == "AsyncReceipt(outcome not known yet)"
        log.gate.set()
        assert (await receipt.wait(timeout_s=PATIENCE_S)).offset == 0

    run(scenario())


def test_awaiting_a_receipt_raises_its_error(url: str) -> None:
    async def scenario() -> None:
        async with sl.open(url) as log:
            await log.create_topic("orders")
            for topic in ("orders", "unknown", "orders"):
                receipt = log.append(topic, event(0), expected_offset=7)
                with pytest.raises((sl.ConflictError, sl.InvalidError)):
                    await receipt
                assert receipt.is_settled
                assert receipt.level is None
            for wrong in (7, ["orders"]):
                with pytest.raises(sl.InvalidError):
                    await log.append(wrong, event(0))  # type: ignore[arg-type]

    run(scenario())


@pytest.mark.slow
def test_an_error_that_no_task_awaits_is_logged(
    stored: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with sl.open(stored) as log:
            await log.create_topic("orders")
            log.append("orders", event(0), expected_offset=7)  # Looked up in a thread.
            await log.append("orders", event(0))
            log.append("orders", event(0), expected_offset=8)
            await log.append("orders", event(0))
            gc.collect()

    with caplog.at_level(logging.ERROR):
        run(scenario())
        gc.collect()

    assert sum("never" in record.message for record in caplog.records) == 2


def test_a_log_is_not_held_up_by_a_writer_that_is_not_awaited(stored: str) -> None:
    async def scenario() -> int:
        async with sl.open(stored) as log:
            await log.create_topic("orders", partitions=4)
            receipts = [
                log.append("orders", event(n), durability=sl.Durability.DURABLE) for n in range(40)
            ]
            await asyncio.gather(*receipts)
            return len({(each.partition, each.offset) for each in receipts})

    assert run(scenario()) == 40


# --- the other calls ---


def test_a_loop_continues_while_an_ack_is_stored() -> None:
    log = GatedLog("ack")

    async def scenario() -> int:
        async with sl.AsyncLog(log).consumer("orders", "billing") as billing:
            delivery = await billing.next()
            assert delivery is not None
            acking = asyncio.create_task(billing.ack(delivery.record))
            await log.until_entered()
            log.gate.set()  # Never come to if the loop stood still.
            return await acking

    assert run(scenario()) == 1


def test_an_ack_that_is_cancelled_has_one_outcome() -> None:
    log = GatedLog("ack")

    async def scenario() -> None:
        async with sl.AsyncLog(log).consumer("orders", "billing") as billing:
            delivery = await billing.next()
            assert delivery is not None
            acking = asyncio.create_task(billing.ack(delivery.record))
            await log.until_entered()
            acking.cancel()
            await asyncio.wait([acking])
            log.gate.set()
            assert await billing.ack(delivery.record) == 1
            assert await billing.lag() == {0: 0}

    run(scenario())

    assert log.cursor("orders", "billing", 0) == 1


def test_a_consumer_whose_opening_is_cancelled_holds_nothing() -> None:
    log = GatedLog("register")

    async def scenario() -> None:
        opening = asyncio.ensure_future(_awaited(sl.AsyncLog(log).consumer("orders", "billing")))
        await log.until_entered()
        opening.cancel()
        await asyncio.wait([opening])
        log.gate.set()

    run(scenario())

    # The loop's threads have ended with it. Its claim would be in the way.
    log.consumer("orders", "billing").close()


async def _awaited(opening: Awaitable[Any]) -> Any:
    return await opening


def test_records_are_read_page_by_page(url: str) -> None:
    async def scenario() -> None:
        async with sl.open(url) as log:
            await log.create_topic("orders")
            await log.append_many("orders", [event(n) for n in range(300)])
            found = [record.payload["n"] async for record in log.read("orders", 0, 10)]
            assert found == list(range(10, 300))
            assert [r.offset async for r in log.read("orders", 0, 0, records_max=3)] == [0, 1, 2]
            batches = await log.read_batches("orders", 0, 0)
            assert sum([batch.num_rows async for batch in batches]) == 300
            assert batches.schema.names[0] == "_partition"
            with pytest.raises(sl.InvalidError):
                await anext(aiter(log.read("orders", 0, 999)))

    run(scenario())


def test_a_watch_is_awaited(url: str) -> None:
    async def scenario() -> list[int]:
        async with sl.open(url) as log:
            await log.create_topic("orders")
            async with log.watch() as watch:
                await watch.add("orders", 0, 0)
                assert not await watch.wait(0)
                waiting = asyncio.create_task(watch.wait(PATIENCE_S))
                await asyncio.sleep(0)
                await log.append("orders", event(0))
                return [hint.end for hint in await waiting]

    assert run(scenario()) == [1]


# --- loops and tasks ---


def test_many_tasks_share_one_log(url: str) -> None:
    async def scenario() -> None:
        async with sl.open(url) as log:
            await log.create_topic("orders")

            async def work(number: int) -> int:
                receipt = await log.append("orders", event(number))
                assert (await log.marks("orders", 0)).high > receipt.offset
                return receipt.offset

            async def follow() -> list[int]:
                async with log.subscribe("orders") as orders:
                    return [(await anext(orders)).payload["n"] for _ in range(100)]

            followers = [asyncio.create_task(follow()) for _ in range(3)]
            offsets = await asyncio.gather(*map(work, range(100)))
            assert sorted(offsets) == list(range(100))
            for follower in followers:
                assert sorted(await follower) == list(range(100))

    run(scenario())


def test_two_loops_share_one_log(url: str) -> None:
    with sl.open(url) as opened:
        opened.create_topic("orders")
        face = sl.AsyncLog(opened)
        seen: list[list[int]] = []

        async def work() -> None:
            async with face.subscribe("orders") as orders:
                receipts = [face.append("orders", event(n)) for n in range(50)]
                seen.append([(await anext(orders)).offset for _ in range(100)])
                await asyncio.gather(*receipts)

        threads = [threading.Thread(target=lambda: run(work())) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)

    assert seen == [list(range(100))] * 2


def test_a_log_outlives_a_loop_that_was_closed_before_it(url: str) -> None:
    with sl.open(url) as opened:
        opened.create_topic("orders")
        face = sl.AsyncLog(opened)
        streams: list[sl.AsyncSubscription[sl.Record]] = []
        steps: list[asyncio.Task[sl.Record | None]] = []

        async def leave_everything() -> None:
            stream = await face.subscribe("orders")
            streams.append(stream)
            steps.append(asyncio.create_task(stream.next()))
            face.append("orders", event(0))
            await asyncio.sleep(0)

        run(leave_everything())
        for number in range(1, 3):
            opened.append("orders", event(number))

        async def go_on() -> list[int]:
            await face.append("orders", event(3))
            return [(await anext(streams[0])).offset for _ in range(4 - len(had))]

        # The step that was left has had the first record, or was cancelled.
        had = [0] if not steps[0].cancelled() else []
        assert [*had, *run(go_on())] == [0, 1, 2, 3]
        assert numbers(opened) == [0, 1, 2, 3]


def test_a_blocking_thread_and_a_loop_share_one_log(url: str) -> None:
    async def scenario() -> list[int]:
        async with sl.open(url) as log:
            await log.create_topic("orders")
            blocking = in_thread(
                lambda: [log.blocking.append("orders", event(0)) for _ in range(9)]
            )
            thread = asyncio.ensure_future(blocking)
            receipts = [await log.append("orders", event(1)) for _ in range(9)]
            theirs = [each.offset for each in await thread]
            return sorted([*theirs, *(each.offset for each in receipts)])

    assert run(scenario()) == list(range(18))
