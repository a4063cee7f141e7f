"""Calls that must not be made where they would hold up an event loop."""

from asyncio import _get_running_loop

from strandline.values import InvalidError


def is_on_loop() -> bool:
    """Whether this thread runs an event loop."""
    # The public way to ask raises where there is none, and each append asks.
    return _get_running_loop() is not None


def check_may_wait() -> None:
    """Raise InvalidError on an event loop's thread."""
    if is_on_loop():
        raise InvalidError("this call may have to wait, make it with asyncio.to_thread")
