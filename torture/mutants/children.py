"""Runs tests that were collected once in forked children, which may hang or die."""

import contextlib
import os
import select
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from _pytest.runner import runtestprotocol

#: A child that reports nothing for so long is taken to hang.
PATIENCE_S = 30.0


class Reporter:
    """The child's end of a pipe to the parent."""

    def __init__(self, pipe: int) -> None:
        self._pipe = os.fdopen(pipe, "wb")

    def report(self, value: Any) -> None:
        """Send a value that JSON can carry."""
        self._pipe.write(msgspec.json.encode(value) + b"\n")
        self._pipe.flush()


def in_child(run: Callable[[Reporter], None], *, patience_s: float = PATIENCE_S) -> list[Any]:
    """Run a function in a child; return what it reported until it ended, died or hung."""
    reads, writes = os.pipe()
    folder = tempfile.mkdtemp(prefix="mutants-", dir=_memory())
    child = os.fork()
    if child == 0:
        os.close(reads)
        _run_child(run, writes, folder)
    os.close(writes)
    try:
        return list(_reports(reads, patience_s))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        shutil.rmtree(folder, ignore_errors=True)


def run_item(item: pytest.Item) -> bool:
    """Run one test; True if it passed."""
    reports = runtestprotocol(item, log=False, nextitem=None)
    return all(report.outcome == "passed" for report in reports)


def _memory() -> str | None:
    return "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108 # A folder of its own.


def _run_child(run: Callable[[Reporter], None], pipe: int, folder: str) -> None:
    try:
        os.setsid()
        os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
        silent = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(silent, descriptor)
        run(Reporter(pipe))
    finally:
        os._exit(0)


def _reports(pipe: int, patience_s: float) -> Iterator[Any]:
    pending = b""
    with os.fdopen(pipe, "rb", buffering=0) as stream:
        while select.select([stream], [], [], patience_s)[0]:
            got = stream.read(1 << 20)
            if not got:
                return
            *lines, pending = (pending + got).split(b"\n")
            yield from map(msgspec.json.decode, lines)
