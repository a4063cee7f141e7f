"""When and how fast a runner has to stop."""

import asyncio
from typing import Final


class Stop:
    """A stop request and its timeout, for all triggers of a runner. For the loop's thread."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s: float = timeout_s
        #: Whether more calls may begin. Any thread may set it to False before `request`.
        self.may_begin: bool = True
        self.is_requested: Final = asyncio.Event()
        self.is_urgent: Final = asyncio.Event()

    def request(self, timeout_s: float | None = None) -> None:
        """Take no more records, and end within the timeout."""
        if timeout_s is not None:
            self.timeout_s = timeout_s
        self.may_begin = False
        self.is_requested.set()

    def request_or_force(self) -> None:
        """Request a stop; if one was requested before, stop at once."""
        if self.is_requested.is_set():
            self.is_urgent.set()
        self.request()
