"""Pauses Python's garbage collector where it would scan many objects that are in use."""

import contextlib
import gc
from collections.abc import Iterator
from functools import cache

from strandline.spark.worker_process import is_worker


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector, which would scan each of a hundred thousand objects many times.

    Used around a whole function, whose temporary objects are freed before the collector runs.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@cache
def freeze_imports() -> None:
    """Exclude the existing objects from later collections, once, only in a Spark worker.

    A worker runs a full collection after each task, in which it would scan every function
    and class of every module that was imported.
    """
    if is_worker():
        gc.collect()
        gc.freeze()
