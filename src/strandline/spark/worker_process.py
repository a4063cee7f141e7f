"""A Python worker of Spark: whether this process is one, and its connection to Spark."""

import contextlib
import socket
import sys
from typing import Final

_DAEMON: Final = "pyspark.daemon"
#: A worker's connection is one of its first files.
_FILES: Final = 32


def is_worker() -> bool:
    """Whether Spark's daemon has started this process."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return main is not None and main.name == _DAEMON


def acknowledge_at_once() -> None:
    """Acknowledge what this worker receives for the present task without delay.

    Spark sends a task in several small writes over TCP, and the kernel holds each back until
    the one before it is acknowledged. It delays acknowledgements, by 40 ms, of a process that
    has answered before: each worker that is used again. Answering ends the effect.
    """
    option = getattr(socket, "TCP_QUICKACK", None)
    if option is None or not is_worker():
        return
    for number in range(_FILES):
        with contextlib.suppress(OSError):
            connection = socket.socket(fileno=number)
            try:
                connection.setsockopt(socket.IPPROTO_TCP, option, 1)
            finally:
                connection.detach()
