"""Calls that must not be made where they would hold up an event loop."""

from strandline.values import InvalidError
from strandline.writes.loops import is_on_loop

__all__ = ["check_may_wait", "is_on_loop"]


def check_may_wait() -> None:
    """Raise InvalidError on an event loop's thread."""
    if is_on_loop():
        raise InvalidError("this call may have to wait, make it with asyncio.to_thread")
