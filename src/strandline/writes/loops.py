"""Whether whoever waits on this thread would hold up an event loop."""

import sys
import threading
from asyncio import _get_running_loop


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
