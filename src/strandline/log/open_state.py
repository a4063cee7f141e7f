"""Whether a store may be used: until it is closed, and only in the process that opened it."""

import os

from strandline.values import ClosedError


class OpenState:
    """Open until `close`. A store's `check_open` asks its OpenState."""

    __slots__ = ("_is_closed", "_pid")

    def __init__(self) -> None:
        self._is_closed = False
        self._pid = os.getpid()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, in this process or before a fork."""
        return self._is_closed

    @property
    def is_inherited(self) -> bool:
        """Whether this is a forked child, which owns nothing that it would have to close."""
        return os.getpid() != self._pid

    def check(self) -> None:
        """Raise ClosedError once it is closed, or in the child of a fork."""
        if self._is_closed:
            raise closed_log()
        if os.getpid() != self._pid:
            raise ClosedError("the log was opened before a fork, open it again in the child")

    def close(self) -> None:
        """Make `check` raise from now on."""
        self._is_closed = True


def closed_log() -> ClosedError:
    """Return the error of calls after the close."""
    return ClosedError("the log is closed, open it again")
