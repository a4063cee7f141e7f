"""Deliveries that were never handled are uncounted at an orderly end."""

import asyncio
import threading

import pytest

import strandline as sl
from strandline.subscriptions import Consumer
from strandline.testing import FakeClock


class GatedClock(FakeClock):
    """Once armed, the next look at the time from a thread of the loop's waits for the gate."""

    def __init__(self) -> None:
        super().__init__()
        self.is_armed, self.has_come, self.gate = False, threading.Event(), threading.Event()

    def now_us(self) -> int:
        if self.is_armed and threading.current_thread() is not threading.main_thread():
            self.is_armed = False
            self.has_come.set()
            assert self.gate.wait(20)
        return super().now_us()


def test_what_a_cancelled_fetch_still_takes_is_handed_back_with_the_rest() -> None:
    log, clock = sl.open("memory:"), GatedClock()
    log.create_topic("orders")
    log.append_many("orders", [sl.Event("order", n) for n in range(40)])

    async def program() -> None:
        consumer = Consumer(log, "orders", "billing", deliveries_max=None, clock=clock)
        clock.is_armed = True
        fetching = asyncio.create_task(sl.AsyncConsumer(consumer).fetch(40))
        assert await asyncio.to_thread(clock.has_come.wait, 20)
        fetching.cancel()
        await asyncio.wait([fetching])
        handing_back = asyncio.create_task(asyncio.to_thread(consumer.hand_back))
        await asyncio.wait([handing_back], timeout=0.05)
        clock.gate.set()
        await handing_back
        # What is left in a thread ends.
        await asyncio.get_running_loop().shutdown_default_executor()
        consumer.close()

    asyncio.run(program())

    with Consumer(log, "orders", "billing", deliveries_max=None) as consumer:
        assert [each.count for each in consumer.fetch(40)] == [1] * 40


@pytest.mark.parametrize("is_fetched", [False, True])
def test_a_reader_that_waits_gets_the_records_between_the_gaps_first(is_fetched: bool) -> None:
    log = sl.open("memory:")
    log.create_topic("orders")
    log.append_many("orders", [sl.Event("order", n) for n in range(4)])
    with log.consumer("orders", "billing", group=False) as consumer:
        consumer.ack(consumer.fetch(3)[1])
        consumer.hand_back()
    seen: list[int] = []

    with log.consumer("orders", "billing", partitions=[]) as consumer:

        def take() -> None:
            while len(seen) < 3:
                took = consumer.fetch(4, timeout_s=20) if is_fetched else [consumer.next(20)]
                seen.extend(each.record.offset for each in took if each is not None)

        taking = threading.Thread(target=take)
        taking.start()
        consumer.assign([0])
        taking.join(20)

    assert seen == [0, 2, 3]
