"""What awaits does so on asyncio, and refuses any other event loop by name.

A coroutine is driven here as trio would drive it: by `send`, without asyncio.
"""

from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.log import AsyncLog, AsyncReceipt, AsyncWatch, Log
from strandline.values import InvalidError
from tests.logs import SCHEMES

Awaiting = Callable[[Log], Coroutine[Any, Any, object]]


class Count(sl.View[list[int]]):
    def initial(self, partition: int) -> list[int]:  # noqa: ARG002 # All begin alike.
        return [0]

    def apply(self, state: list[int], record: sl.Record) -> None:  # noqa: ARG002 # Counted.
        state[0] += 1


def of_view(log: Log) -> Coroutine[Any, Any, object]:
    view = sl.LiveView(log, "t", Count())
    view.reconcile([0])
    return sl.AsyncLiveView(view).wait_applied(0, 10)


async def opened(log: Log) -> object:
    return await AsyncLog(log).subscribe("t")


async def entered(log: Log) -> object:
    async with AsyncLog(log).transaction() as connection:
        return connection


AWAITED: dict[str, Awaiting] = {
    "subscription": lambda log: sl.AsyncSubscription(log.subscribe("t")).next(),
    "async for": lambda log: sl.AsyncSubscription(log.subscribe("t")).__anext__(),
    "consumer": lambda log: sl.AsyncConsumer(log.consumer("t", "billing")).next(),
    "watch": lambda log: AsyncWatch(log.watch()).wait(),
    "view": of_view,
    "call": lambda log: AsyncLog(log).marks("t", 0),
    "opening": opened,
    "transaction": entered,
}


@pytest.fixture(params=SCHEMES)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    scheme: str = request.param
    with sl.open("memory:" if scheme == "memory" else f"{scheme}:{tmp_path / 'log'}") as log:
        log.create_topic("t")
        yield log


@pytest.mark.parametrize("name", AWAITED)
def test_what_cannot_be_awaited_here_says_that_it_needs_asyncio(name: str, log: Log) -> None:
    waiting = AWAITED[name](log)

    with pytest.raises(InvalidError, match="asyncio"):
        waiting.send(None)


def test_an_append_needs_asyncio(log: Log) -> None:
    with pytest.raises(InvalidError, match="asyncio"):
        AsyncLog(log).append("t", sl.Event("a"))
    with pytest.raises(InvalidError, match="asyncio"):
        AsyncLog(log).append_many("t", [sl.Event("a")])

    assert log.marks("t", 0).high == 0


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_a_receipt_that_has_to_be_waited_for_needs_asyncio(scheme: str, tmp_path: Path) -> None:
    with sl.open(f"{scheme}:{tmp_path / 'log'}") as log:
        log.create_topic("t")
        receipt = log.append("t", sl.Event("a"))

        with pytest.raises(StopIteration):
            next(receipt.__await__())
        with pytest.raises(InvalidError, match="asyncio"):
            AsyncReceipt(receipt).wait(sl.Durability.DURABLE).send(None)
