"""Threads for functions that block."""

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from strandline.locks import start_thread


class Returned(NamedTuple):
    """How a function ended: with a result or an error."""

    result: Any
    error: BaseException | None = None


class Workers:
    """Makes calls in at most `count` threads, which are started as needed.

    They are daemon threads: a function that never returns must not prevent the program from
    ending, and its record is delivered again anyway.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._busy = 0

    def submit(self, call: Callable[[], None]) -> None:
        """Queue a call, which must not raise. From any thread."""
        with self._lock:
            self._busy += 1
            is_short = self._threads < min(self._busy, self._count)
            self._threads += is_short
        if is_short:
            self._begin_thread()
        self._calls.put(call)

    async def run(self, function: Callable[..., Any], *arguments: object) -> Returned:
        """Call a function in one of the threads; if the wait is cancelled, it keeps running."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Returned] = loop.create_future()
        context = contextvars.copy_context()

        def call() -> None:
            returned = returned_by(context, function, *arguments)
            call_on(loop, _resolve, future, returned)

        self.submit(call)
        return await future

    def close(self) -> None:
        """Make each thread end after its current call."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _begin_thread(self) -> None:
        thread = threading.Thread(target=self._work, name=f"trigger {self._name}", daemon=True)
        try:
            start_thread(thread)
        except RuntimeError:
            with self._lock:
                self._threads -= 1
                if self._threads == 0:
                    raise
            # The system has no more threads: the existing ones make the call.

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            with self._lock:
                self._busy -= 1


def returned_by(
    context: contextvars.Context, function: Callable[..., Any], *arguments: object
) -> Returned:
    """Call a function in a context, and return how it ended."""
    try:
        return Returned(context.run(function, *arguments))
    except BaseException as error:  # noqa: BLE001 - Whatever a function raises is its failure.
        return Returned(None, error)


def call_on(loop: asyncio.AbstractEventLoop, action: Callable[..., None], *with_: object) -> None:
    """Schedule a call on the loop. From any thread."""
    # On a closed loop no task waits for the call.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(action, *with_)


def _resolve(future: asyncio.Future[Returned], returned: Returned) -> None:
    if not future.done():
        future.set_result(returned)
