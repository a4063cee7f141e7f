"""Processes that take part in a round."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection

# A fork would inherit locks of threads, the collector's state and open stores.
_context = multiprocessing.get_context("spawn")


@contextmanager
def crew(
    work: Callable[..., None], arguments: Sequence[tuple[object, ...]]
) -> Iterator[list[Connection]]:
    """Run `work(connection, *arguments)` in a process for each; yield our ends of the pipes.

    A process that still runs when the block ends is killed; after the death of a process the
    next `recv` raises EOFError.
    """
    members = []
    lines = []
    try:
        for each in arguments:
            ours, theirs = _context.Pipe()
            member = _context.Process(target=work, args=(theirs, *each), daemon=True)
            member.start()
            theirs.close()
            members.append(member)
            lines.append(ours)
        yield lines
        for member in members:
            member.join()
    finally:
        for line in lines:
            line.close()
        for member in members:
            member.kill()
            member.join()
            member.close()
