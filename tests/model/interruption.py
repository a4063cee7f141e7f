"""SIGINT at every place of a call at which CPython can deliver it.

A trace function makes the signal pending before a chosen bytecode; the interpreter then
delivers it where it would deliver a real one that came at this moment, which is never
between two bytecodes that it runs as one (design 0070). Only in the main thread.
"""

import _thread
import dis
import functools
import gc
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any

#: Bytecodes that look for signals by themselves; others may call Python code that does.
CHECKING = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD", "YIELD_VALUE", "SEND"}


@functools.cache
def _opcodes(code: CodeType) -> bytes:
    return code.co_code


class Interruption:
    """Runs actions, with a SIGINT before the bytecode of a number, or none."""

    def __init__(self, number: int = 0, spared: tuple[str, ...] = ()) -> None:
        """`spared` are the ends of files that are not interrupted, nor what they call."""
        self._number = number
        self._spared = ("<frozen importlib._bootstrap>", *spared)
        self.count = 0
        #: The numbers of bytecodes before which a signal has an effect of its own.
        self.points: list[int] = []
        #: Where the signal was made pending.
        self.place = ""
        self.error: BaseException | None = None
        # A subscript, because after a call the trace function itself would be interrupted.
        # One object for as long as it is needed: CPython 3.11 can lose its own hold of it.
        self._tracer = self._trace
        self._pending: defaultdict[int, None] = defaultdict(_thread.interrupt_main)

    def run(self, action: Callable[[], object]) -> None:
        """Run `action`; what it raised, KeyboardInterrupt as a rule, is kept as `error`."""
        previous = signal.signal(signal.SIGINT, signal.default_int_handler)
        # Else the signal may come out of a callback of the collector, which drops it.
        has_collector = gc.isenabled()
        gc.disable()
        try:
            self._run(action)
        except BaseException as error:  # noqa: BLE001 - The caller looks at it.
            self.error = error
        finally:
            signal.signal(signal.SIGINT, previous)
            if has_collector:
                gc.enable()

    def _run(self, action: Callable[[], object]) -> None:
        sys.settrace(self._tracer)
        try:
            action()
        finally:
            sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        if event == "call":
            if self._is_spared(frame):
                return None
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
            self._add_point()
        elif event == "opcode":
            self.count += 1
            if dis.opname[_opcodes(code)[frame.f_lasti]] in CHECKING:
                self._add_point()
            if self.count == self._number:
                self.place = f"{code.co_filename}:{frame.f_lineno} in {code.co_qualname}"
                _stop_tracing(frame)
                self._pending[0]
                return None
        return self._tracer

    def _is_spared(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_code.co_filename.endswith(self._spared):
                return True
            frame = frame.f_back
        return False

    def _add_point(self) -> None:
        if not self.points or self.points[-1] != self.count:
            self.points.append(self.count)


def _stop_tracing(frame: FrameType | None) -> None:
    # The trace function is Python code, too, and would be what is interrupted.
    sys.settrace(None)
    while frame is not None:
        frame.f_trace = None
        frame = frame.f_back


def points_of(action: Callable[[], object]) -> Sequence[int]:
    """Run `action` in peace; return the numbers of the bytecodes to interrupt it at."""
    interruption = Interruption()
    interruption.run(action)
    if interruption.error is not None:
        raise interruption.error
    return interruption.points
