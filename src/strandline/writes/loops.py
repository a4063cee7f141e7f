"""Whether a blocking call on this thread would block an event loop."""

import sys
import threading
from asyncio import _get_running_loop

from strandline.values import InvalidError


def check_on_asyncio() -> None:
    """Raise InvalidError where a coroutine is driven by anything but asyncio, such as trio."""
    if _get_running_loop() is None:
        raise InvalidError(
            "awaiting this needs a running asyncio event loop; elsewhere make the blocking call"
            " in a thread, with trio for example trio.to_thread.run_sync(next, subscription)"
        )


def is_on_loop() -> bool:
    """Whether this thread runs an event loop that others depend on.

    Cells of a notebook run on a loop, too: that of the kernel, which waits for them anyway.
    """
    # The public way to ask raises where there is none, and each append asks.
    return _get_running_loop() is not None and not _is_in_cell()


def _is_in_cell() -> bool:
    kernel = sys.modules.get("ipykernel.kernelapp")
    return (
        kernel is not None
        and kernel.IPKernelApp.initialized()
        and threading.current_thread() is threading.main_thread()
    )
