"""Python's collector of cycles, kept from objects that are no garbage."""

import contextlib
import gc
import os
from collections.abc import Iterator
from typing import Final

#: Set where Spark has started this process, and gives it one task after the other.
_IS_WORKER: Final = "SPARK_REUSE_WORKER"


@contextlib.contextmanager
def unhurried() -> Iterator[None]:
    """Let the collector rest: it would look at each of a hundred thousand objects many times."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def freeze_modules() -> None:
    """Keep the collector from what this process has imported, if it is a worker of Spark.

    Spark has a worker collect after each task, and the objects of modules are nearly all that
    there is: 40 ms, at a time when the next step wants the core. Only the first call does it.
    """
    if os.environ.get(_IS_WORKER) and not gc.get_freeze_count():
        # What is garbage by now would be kept, too.
        gc.collect()
        gc.freeze()
