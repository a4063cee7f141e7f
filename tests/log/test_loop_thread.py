"""A store whose client is asyncio-only keeps the same rules, through a loop on a thread."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from strandline.log import (
    AppendRequest,
    AsyncLog,
    Capabilities,
    EventBody,
    Log,
    LoopThread,
    Outcome,
    Reach,
)
from strandline.log.draft import Draft
from strandline.log.store import Placement
from strandline.stores.memory import MemoryStore, MemoryTopic
from strandline.testing import FakeClock, conformance
from strandline.values import (
    ClosedError,
    Durability,
    Event,
    TopicSettings,
    UnavailableError,
)
from tests.conformance.cases import cases, opening

REQUEST = AppendRequest([Draft(None, EventBody("a", b"{}", b"{}", None), 5)])
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "build-a-store.md"


class Client:
    """A client library of a server, whose calls are coroutines of the loop that made it."""

    def __init__(self, kept: MemoryStore) -> None:
        self._kept = kept
        self.loop = asyncio.get_running_loop()
        #: What appends wait for.
        self.gate = asyncio.Event()
        self.gate.set()

    async def append(self, topic: MemoryTopic, partition: int, request: AppendRequest) -> Placement:
        assert asyncio.get_running_loop() is self.loop
        await asyncio.sleep(0)
        await self.gate.wait()
        return self._kept.append(topic, partition, request, Durability.APPLIED, None).result()

    async def put(self, *given: Any) -> bool:
        assert asyncio.get_running_loop() is self.loop
        await asyncio.sleep(0)
        return self._kept.put_key(*given)


async def connect(kept: MemoryStore) -> Client:
    return Client(kept)


class AsyncioStore:
    capabilities = Capabilities(Durability.APPLIED, "as its server says", Reach.NETWORK)

    def __init__(self, server: MemoryStore) -> None:
        self.loop = LoopThread()
        self.client = self.loop.run(connect(server))
        self._server = server

    def append(
        self,
        topic: MemoryTopic,
        partition: int,
        request: AppendRequest,
        level: Durability,  # noqa: ARG002 - The store has one level only.
        timeout_s: float | None,
        *,
        may_wait: bool = True,
    ) -> Outcome:
        work = self.client.append(topic, partition, request)
        return self.loop.append(work, Durability.APPLIED, timeout_s, may_wait=may_wait)

    def put_key(self, topic: MemoryTopic, key: str, value: bytes, expected: bytes | None) -> bool:
        return self.loop.run(self.client.put(topic, key, value, expected))

    def close(self) -> None:
        self.loop.close()
        self._server.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)


def open_one(clock: FakeClock | None = None, **options: Any) -> Log:
    store: Any = AsyncioStore(MemoryStore(clock))
    return Log(store, clock=clock, **options)


@pytest.fixture
def opened() -> Iterator[Callable[..., Log]]:
    with opening(open_one) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize("rule", cases(conformance.RULES))
def test_an_asyncio_store_keeps(rule: conformance.Rule, opened: Callable[..., Log]) -> None:
    rule(opened)


@pytest.mark.parametrize("rule", conformance.TIMED_RULES, ids=conformance.name_of)
def test_an_asyncio_store_keeps_in_time(
    rule: conformance.TimedRule, opened: Callable[..., Log]
) -> None:
    rule(opened, FakeClock())


def test_on_an_event_loop_an_append_does_not_wait_for_the_client() -> None:
    store: Any = AsyncioStore(MemoryStore())
    log = Log(store)
    log.create_topic("orders")
    gate = store.client.gate
    store.loop.run(set_gate(gate, is_open=False))

    async def on_a_loop() -> int:
        face = AsyncLog(log)
        store.loop.run(set_gate(gate, is_open=True))
        await face.append("orders", Event("a"))
        store.loop.run(set_gate(gate, is_open=False))
        receipt = face.append("orders", Event("a"))
        assert not receipt.is_settled
        with pytest.raises(UnavailableError):
            await receipt.wait(timeout_s=0)
        store.loop.run(set_gate(gate, is_open=True))
        return (await receipt).offset

    assert asyncio.run(on_a_loop()) == 1
    log.close()


def test_what_the_close_cuts_off_is_a_closed_error() -> None:
    store: Any = AsyncioStore(MemoryStore())
    topic = store.create_topic("orders", None, TopicSettings())
    store.loop.run(set_gate(store.client.gate, is_open=False))
    outcome: list[Outcome] = []

    async def on_a_loop() -> None:
        outcome.append(store.append(topic, 0, REQUEST, Durability.APPLIED, None, may_wait=False))

    asyncio.run(on_a_loop())
    assert outcome[0].level is None
    store.close()

    assert outcome[0].level is None
    with pytest.raises(ClosedError):
        outcome[0].result()
    with pytest.raises(ClosedError):
        asyncio.run(outcome[0].wait_on_loop())
    with pytest.raises(ClosedError):
        store.loop.run(set_gate(store.client.gate, is_open=True))
    assert "strandline-loop" not in {thread.name for thread in threading.enumerate()}


def test_a_call_that_takes_too_long_is_cancelled() -> None:
    loop = LoopThread()
    ended = threading.Event()

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(UnavailableError, match=r"timeout_s=0\.01"):
        loop.run(never(), timeout_s=0.01)

    assert ended.wait(20)
    loop.close()


def test_the_page_shows_the_store_of_this_test() -> None:
    shown = inspect.getsource(AsyncioStore).partition("    def __getattr__")[0].strip()

    assert shown in PAGE.read_text()


async def set_gate(gate: asyncio.Event, *, is_open: bool) -> None:
    if is_open:
        gate.set()
    else:
        gate.clear()


def test_work_may_be_started_by_what_is_collected_while_other_work_is_started() -> None:
    thread = LoopThread()
    begun: list[Future[int]] = []
    submit = asyncio.run_coroutine_threadsafe

    async def number(value: int) -> int:
        return value

    def submit_and_collect(
        work: Coroutine[Any, Any, int], loop: asyncio.AbstractEventLoop
    ) -> "Future[int]":
        if not begun:
            # As a finalizer would that the collector calls here.
            begun.append(submit(number(0), loop))
            begun.append(thread.start(number(2)))
        return submit(work, loop)

    with mock.patch.object(asyncio, "run_coroutine_threadsafe", submit_and_collect):
        starting = threading.Thread(target=lambda: begun.append(thread.start(number(3))))
        starting.daemon = True
        starting.start()
        starting.join(60)
    assert not starting.is_alive()

    assert [each.result(60) for each in begun] == [0, 2, 3]
    thread.close()


def test_on_an_event_loop_receipts_are_awaited_until_the_client_is_done() -> None:
    store: Any = AsyncioStore(MemoryStore())
    log = Log(store)
    log.create_topic("orders")
    gate = store.client.gate

    async def on_a_loop() -> list[int]:
        face = AsyncLog(log)
        await face.append("orders", Event("a"))
        store.loop.run(set_gate(gate, is_open=False))
        receipts = face.append_many("orders", [Event("a"), Event("b")])
        with pytest.raises(UnavailableError):
            await receipts.wait(timeout_s=0)
        store.loop.run(set_gate(gate, is_open=True))
        return [each.offset for each in await receipts]

    assert asyncio.run(on_a_loop()) == [1, 2]
    log.close()
