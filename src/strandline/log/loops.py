"""Calls that must not be made where they would hold up an event loop."""

from typing import Protocol

from strandline.values import Durability, InvalidError
from strandline.writes.loops import is_on_loop

__all__ = ["check_may_create", "check_may_wait", "check_may_wait_for", "is_on_loop"]


class _Awaited(Protocol):
    @property
    def is_settled(self) -> bool: ...

    @property
    def level(self) -> Durability | None: ...


def check_may_wait() -> None:
    """Raise InvalidError on an event loop's thread."""
    if is_on_loop():
        raise InvalidError("this call may have to wait, make it with asyncio.to_thread")


def check_may_create(topic: str) -> None:
    """Raise InvalidError on an event loop's thread, if an append has to create its topic."""
    if is_on_loop():
        raise InvalidError(
            "creating this topic may have to wait, create it before the event loop"
            " or with asyncio.to_thread",
            topic=topic,
        )


def check_may_wait_for(outcome: _Awaited, level: Durability, timeout_s: float | None) -> None:
    """Raise InvalidError on an event loop's thread, if the level has to be waited for there."""
    if timeout_s == 0 or not is_on_loop():
        return
    reached = outcome.level
    # What is settled without a level was refused, and raises at once.
    if not outcome.is_settled or (reached is not None and reached < level):
        raise InvalidError("waiting here would block the event loop, await the receipt")
