"""Which event loop drives a coroutine."""

import sys
from asyncio import AbstractEventLoop, _get_running_loop
from collections.abc import Callable

from strandline._core import IS_COMPILED
from strandline.values import InvalidError

# The public function raises where no loop runs, and is called by each await.
running_loop: Callable[[], AbstractEventLoop | None] = _get_running_loop
"""Return the loop that runs in this thread; None if none does."""

if IS_COMPILED and sys.version_info < (3, 12):
    # On this Python, the lookup is a system call.
    from strandline._core.core import know_running_loop
    from strandline._core.core import running_loop as known_loop

    def running_loop() -> AbstractEventLoop | None:
        loop = known_loop()
        if loop is None:
            loop = _get_running_loop()
            if loop is not None:
                know_running_loop(loop)
        return loop


def check_on_asyncio() -> None:
    """Raise InvalidError if a coroutine is driven by anything but asyncio, such as trio."""
    if running_loop() is None:
        raise InvalidError(
            "awaiting this needs a running asyncio event loop; elsewhere make the blocking call"
            " in a thread, with trio for example trio.to_thread.run_sync(next, subscription)"
        )
