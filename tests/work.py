"""How much work a call does, in steps that are counted and not timed."""

import gc
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from unittest import mock

_SIZED = list, tuple, dict, set, frozenset, range
_BYTES = bytes, bytearray, memoryview
#: Copying so many bytes counts as one step.
_STEP_BYTES = 64
#: Instructions of SQLite between two calls of its progress handler.
_INSTRUCTIONS = 20
#: How many more containers there are, about, at each collection of garbage.
_CONTAINERS = 700
_NEVER = 1_000_000


class Work:
    """Steps of every thread that is started, or counts itself, while `counting`.

    A step is a line that is run, a value in what a Python function returns, a container
    that is made (loops in C show in these two), or an instruction of SQLite's machine.
    """

    def __init__(self) -> None:
        self.steps = 0

    @contextmanager
    def counting(self) -> Iterator["Work"]:
        """Count what happens in the block, with connections to SQLite that are made in it."""
        before, connect, thresholds = sys.gettrace(), sqlite3.connect, gc.get_threshold()
        was_enabled = gc.isenabled()

        def connected(*args: Any, **kwargs: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*args, **kwargs)
            connection.set_progress_handler(self._on_progress, _INSTRUCTIONS)
            return connection

        with mock.patch.object(sqlite3, "connect", connected):
            threading.settrace(self._on_event)
            gc.set_threshold(_CONTAINERS, _NEVER, _NEVER)
            gc.callbacks.append(self._on_collection)
            gc.enable()
            sys.settrace(self._on_event)
            try:
                yield self
            finally:
                sys.settrace(before)
                gc.callbacks.remove(self._on_collection)
                gc.set_threshold(*thresholds)
                if not was_enabled:
                    gc.disable()
                threading.settrace(None)

    def of(self, call: Callable[[], object]) -> int:
        """Return the steps of one call, which is made inside `counting`."""
        before = self.steps
        call()
        return self.steps - before

    def _on_event(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename == __file__:
            return None
        if event == "line":
            self.steps += 1
        elif event == "return":
            if isinstance(arg, _SIZED):
                self.steps += len(arg)
            elif isinstance(arg, _BYTES):
                self.steps += len(arg) // _STEP_BYTES
        return self._on_event

    def _on_progress(self) -> int:
        self.steps += _INSTRUCTIONS
        return 0

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:  # noqa: ARG002 # A callback's.
        if phase == "start":
            self.steps += _CONTAINERS
