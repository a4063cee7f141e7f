"""Threads for functions that block."""

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any

from strandline.locks import start_thread


class Workers:
    """Runs calls on at most `count` threads, begun as they are needed.

    The threads do not keep the process alive: a function that never returns must not
    keep a program from its end, and its record comes again anyway.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = 0
        self._busy = 0

    async def run(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Call it on one of the threads; a cancelled wait leaves it running there."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def call() -> None:
            try:
                result = context.run(function, *arguments)
            except BaseException as error:  # noqa: BLE001 - Raised where it is awaited.
                _call_on(loop, _fail, future, error)
            else:
                _call_on(loop, _succeed, future, result)

        self._busy += 1
        if self._busy > self._threads and self._threads < self._count:
            self._threads += 1
            thread = threading.Thread(target=self._work, name=f"trigger {self._name}", daemon=True)
            start_thread(thread)
        self._calls.put(call)
        try:
            return await future
        finally:
            self._busy -= 1

    def close(self) -> None:
        """Let the threads end, each after the call that it is in."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def _call_on(loop: asyncio.AbstractEventLoop, action: Callable[..., None], *with_: object) -> None:
    # No task waits on a loop that was closed.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(action, *with_)


def _succeed(future: asyncio.Future[Any], result: object) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(_carried(error))


def _carried(error: BaseException) -> Exception:
    """Return what a future takes: no StopIteration, and nothing that would end the program."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    carrier = RuntimeError(f"{type(error).__qualname__}: {error}")
    carrier.__cause__ = error
    return carrier
