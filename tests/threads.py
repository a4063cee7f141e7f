"""Calls on separate threads."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


def on_thread(action: Callable[[], Any]) -> "Future[Any]":
    """Run `action` on a separate thread; its result or error is the future's."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(action())
        except BaseException as error:  # noqa: BLE001 - the test sees it in the future.
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def let_it_block() -> None:
    """Give another thread the time to block; a test that gives too little passes, too."""
    threading.Event().wait(0.05)
