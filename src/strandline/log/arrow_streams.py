"""Ends the streams of rows given to Arrow before the interpreter exits. See design 0104.

Arrow reads ahead in its own threads, also for a query that stopped early. A thread that calls
into an interpreter that is shutting down hangs or aborts the process.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from strandline.clock import Clock, SystemClock
from strandline.values import ClosedError

_STEP_S: Final = 0.005
_QUIET_S: Final = 3.0
"""A stream with no pull for this long, though still referenced, is not being read ahead."""
_LEAVING_S: Final = 0.25
"""For this long after its last pull, one of Arrow's threads may still be inside Python."""
_WAIT_S: Final = 60.0


class ArrowStreams:
    """The streams of this process that were not read to their end. Any thread may use it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_ended = False
        self.forget()

    def forget(self) -> None:
        """Forget all streams in a forked child: the threads that read them are the parent's."""
        self._changed = threading.Condition()
        self._begun: weakref.WeakSet[_Stream] = weakref.WeakSet()
        self._under_way = 0
        self._pulled_at = float("-inf")

    def reader(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
        """Return a reader of the batches, for Arrow; ClosedError once the process ends."""
        self._check()
        return pa.RecordBatchReader.from_batches(schema, _Stream(self, batches))

    def pull(self, stream: _Stream, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
        """Return the next batch; ClosedError once the process ends."""
        with self._changed:
            self._pulled_at = self._clock.monotonic()
            if self._is_ended:
                # Arrow does not read on from a stream that raised.
                self._begun.discard(stream)
            self._check()
            self._begun.add(stream)
            self._under_way += 1
        is_over = True
        try:
            batch = next(batches)
            is_over = False
        finally:
            with self._changed:
                self._under_way -= 1
                self._pulled_at = self._clock.monotonic()
                if is_over:
                    self._begun.discard(stream)
                self._changed.notify_all()
        return batch

    def end(self) -> None:
        """End every stream, and wait until no thread is about to read from one."""
        with self._changed:
            self._is_ended = True
            self._changed.wait_for(lambda: not self._under_way, _WAIT_S)
            # Arrow releases a stream that ended. One that the program still holds is not read.
            while self._clock.monotonic() < self._pulled_at + self._quiet_s:
                self._changed.wait(_STEP_S)

    @property
    def _quiet_s(self) -> float:
        return _QUIET_S if len(self._begun) else _LEAVING_S

    def _check(self) -> None:
        if self._is_ended:
            raise ClosedError("the interpreter is shutting down, read streams to their end earlier")


class _Stream(Iterator[pa.RecordBatch]):
    def __init__(self, streams: ArrowStreams, batches: Iterator[pa.RecordBatch]) -> None:
        self._streams = streams
        self._batches = batches

    def __next__(self) -> pa.RecordBatch:
        return self._streams.pull(self, self._batches)


ARROW_STREAMS: Final = ArrowStreams(SystemClock())
"""The streams of this process."""
# Runs after the non-daemon threads were joined: they may read until they end.
atexit.register(ARROW_STREAMS.end)
os.register_at_fork(after_in_child=ARROW_STREAMS.forget)
