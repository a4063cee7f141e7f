"""How the async face of a log begins and ends."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import strandline as sl


def test_a_log_whose_leaving_is_cancelled_is_closed() -> None:
    async def leave() -> None:
        loop = asyncio.get_running_loop()
        executor = ThreadPoolExecutor(1)
        loop.set_default_executor(executor)
        gate = threading.Event()
        held: list[sl.AsyncLog] = []

        async def use() -> None:
            async with sl.open("memory:") as log:
                held.append(log)
                # The closing waits for its thread, which has other work.
                executor.submit(gate.wait)

        task = asyncio.create_task(use())
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        gate.set()
        # What comes after it in the one thread finds it closed.
        with pytest.raises(sl.ClosedError):
            await held[0].create_topic("t")

    asyncio.run(leave())


def test_what_is_no_blocking_log_has_no_async_face() -> None:
    with pytest.raises(sl.InvalidError, match="pass a log that is open"):
        sl.AsyncLog("memory:")  # type: ignore[arg-type]
    with sl.open("memory:") as log, pytest.raises(sl.InvalidError, match="async log already"):
        sl.AsyncLog(sl.AsyncLog(log))  # type: ignore[arg-type]
