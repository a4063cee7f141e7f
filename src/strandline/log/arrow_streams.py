"""Streams of rows that are handed to Arrow end before the interpreter does. See design 0104.

Arrow reads ahead in threads of its own, also for a query that stopped early, and a thread that
calls into an interpreter that ends hangs or aborts the process.
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
"""A stream that is held and at which no thread pulls for so long is not read ahead."""
_LEAVING_S: Final = 0.25
"""For so long after its last pull, a thread of Arrow's may still be on its way out."""
_WAIT_S: Final = 60.0


class ArrowStreams:
    """The streams of one process that are not read to their end. Any thread may use it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_ended = False
        self.forget()

    def forget(self) -> None:
        """Forget the streams: the threads that pull at them are those of another process."""
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
                # Arrow pulls no more at a stream that has failed.
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
        """End every stream, and wait until no thread is about to pull at one."""
        with self._changed:
            self._is_ended = True
            self._changed.wait_for(lambda: not self._under_way, _WAIT_S)
            # Arrow releases a stream that has ended. Held by the program, it is not pulled at.
            while self._clock.monotonic() < self._pulled_at + self._quiet_s:
                self._changed.wait(_STEP_S)

    @property
    def _quiet_s(self) -> float:
        return _QUIET_S if len(self._begun) else _LEAVING_S

    def _check(self) -> None:
        if self._is_ended:
            raise ClosedError("the program ends, read its streams to their end before")


class _Stream(Iterator[pa.RecordBatch]):
    def __init__(self, streams: ArrowStreams, batches: Iterator[pa.RecordBatch]) -> None:
        self._streams = streams
        self._batches = batches

    def __next__(self) -> pa.RecordBatch:
        return self._streams.pull(self, self._batches)


ARROW_STREAMS: Final = ArrowStreams(SystemClock())
"""Those of this process."""
# Runs after the threads that the program waits for, which may read on until they end.
atexit.register(ARROW_STREAMS.end)
os.register_at_fork(after_in_child=ARROW_STREAMS.forget)
