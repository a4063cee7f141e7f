"""Python's collector of cycles, at rest while many objects are made that are no garbage."""

import contextlib
import gc
from collections.abc import Iterator


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
