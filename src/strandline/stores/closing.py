"""Closes several things, even if one of them raises."""

import contextlib
from collections.abc import Callable, Iterable


def close_each(closings: Iterable[Callable[[], object]]) -> None:
    """Call each of these in reverse order; then raise the last error, if there was one.

    Each error keeps its cause and loses its context: if two errors share a context, an
    ExitStack would search the end of a circular chain.
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
