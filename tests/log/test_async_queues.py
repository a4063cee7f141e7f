"""Appends of a loop that queue for their topic, which a thread looks up."""

import asyncio
import threading
from typing import Any

import strandline as sl
from strandline.log import Log
from strandline.stores.memory import MemoryStore

PATIENCE_S = 30.0


def event(number: int) -> sl.Event:
    return sl.Event("order", {"n": number})


class SlowStore(MemoryStore):
    """Counts the appends that wait until their level is reached, and holds them up."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = 0
        self.gate = threading.Event()

    def append(self, *args: Any, may_wait: bool = True, **terms: Any) -> Any:
        if may_wait:
            self.waited += 1
            assert self.gate.wait(PATIENCE_S)
        return super().append(*args, may_wait=may_wait, **terms)


def test_of_appends_that_queue_for_their_topic_only_the_first_holds_up_the_others() -> None:
    async def scenario() -> None:
        store = SlowStore()
        async with sl.AsyncLog(Log(store)) as log:
            await log.create_topic("orders")
            receipts = [log.append("orders", event(number)) for number in range(8)]
            last = log.append_many("orders", [event(8), event(9)])
            store.gate.set()
            for receipt in receipts:
                await receipt
            await last
            stored = [record.payload["n"] for record in log.blocking.read("orders", 0, 0)]
            assert stored == list(range(10))
        assert store.waited == 1

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))
