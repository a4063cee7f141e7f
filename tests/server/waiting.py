"""Waits for a condition."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 120.0


def wait_until(look: Callable[[], T]) -> T:
    """Return what `look` returns once that is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.01)
    return found
