"""Calls that must not be made where they would hold up an event loop."""

import asyncio

from strandline.values import InvalidError


def is_on_loop() -> bool:
    """Whether this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def check_may_wait() -> None:
    """Raise InvalidError on an event loop's thread."""
    if is_on_loop():
        raise InvalidError("this call may have to wait, make it with asyncio.to_thread")
