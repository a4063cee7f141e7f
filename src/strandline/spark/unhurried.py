"""Python's garbage collector, paused where it would scan many objects that are in use."""

import contextlib
import gc
import sys
from collections.abc import Iterator
from functools import cache

_DAEMON = "pyspark.daemon"


@contextlib.contextmanager
def unhurried() -> Iterator[None]:
    """Pause the collector: it would scan each of a hundred thousand objects many times.

    Of a function as a whole it leaves less to scan afterwards: what it needed is gone by then.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@cache
def spare_imports() -> None:
    """Exclude what exists now from later collections, once, in a worker of Spark alone.

    A worker runs a full collection after each task, in which it would scan every function
    and class of every module that was imported.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name == _DAEMON:
        gc.collect()
        gc.freeze()
