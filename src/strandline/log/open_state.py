"""Whether a store may still be used: until it is closed, and in its own process only."""

import os

from strandline.values import ClosedError


class OpenState:
    """Open until `close`. A store's `check_open` is that of its state."""

    __slots__ = ("_is_closed", "_pid")

    def __init__(self) -> None:
        self._is_closed = False
        self._pid = os.getpid()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, in whichever process this is."""
        return self._is_closed

    @property
    def is_inherited(self) -> bool:
        """Whether this is the child of a fork, which has nothing of its own to close."""
        return os.getpid() != self._pid

    def check(self) -> None:
        """Raise ClosedError once it is closed, or in the child of a fork."""
        if self._is_closed:
            raise closed_log()
        if os.getpid() != self._pid:
            raise ClosedError("the log was opened before a fork, open it again in the child")

    def close(self) -> None:
        """Refuse everything from now on."""
        self._is_closed = True


def closed_log() -> ClosedError:
    """Return the error of calls after the close."""
    return ClosedError("the log is closed, open it again")
