"""When and how fast a runner has to stop."""

import asyncio
from typing import Final


class Stop:
    """When and how fast to stop, for all triggers of a runner. For the loop's thread."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s: float = timeout_s
        #: Whether more functions may be called. Any thread may end that, ahead of its request.
        self.may_begin: bool = True
        self.is_requested: Final = asyncio.Event()
        self.is_urgent: Final = asyncio.Event()

    def request(self, timeout_s: float | None = None) -> None:
        """Take no more records, and end within the time."""
        if timeout_s is not None:
            self.timeout_s = timeout_s
        self.may_begin = False
        self.is_requested.set()

    def request_or_force(self) -> None:
        """Stop; at once, if that was requested before."""
        if self.is_requested.is_set():
            self.is_urgent.set()
        self.request()
