"""Closes several things, whatever one of them raises."""

import contextlib
from collections.abc import Callable, Iterable


def close_each(closings: Iterable[Callable[[], object]]) -> None:
    """Call each of these, the last one first; then raise what was raised last, if anything was.

    Each error keeps its cause and loses its context: where two of them have an exception in
    common, an ExitStack would look for the end of a chain that runs in a circle.
    """
    with contextlib.ExitStack() as stack:
        for close in closings:
            stack.callback(_without_context, close)


def _without_context(close: Callable[[], object]) -> None:
    try:
        close()
    except BaseException as error:
        error.__context__ = None
        raise
