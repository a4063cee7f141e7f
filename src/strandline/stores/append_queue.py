"""Queues the appends to one partition, so that waiting ones are sent together."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from copy import copy
from typing import Final

from strandline.clock import Clock
from strandline.log.loop_thread import LoopOutcome
from strandline.log.open_state import OpenState, closed_log
from strandline.log.store import AppendRequest, Placement
from strandline.values import Durability, StrandlineError, UnavailableError, UnknownError

#: The maximum sent together: requests, and approximate bytes.
_REQUESTS_MAX: Final = 1000
_BYTES_MAX: Final = 4 * 1024 * 1024

AppendResults = Sequence[Placement | StrandlineError]
"""The outcomes of appends, in their order."""


class WaitingAppend:
    """A queued append."""

    __slots__ = ("future", "is_sent", "is_withdrawn", "request", "size_bytes")

    def __init__(self, request: AppendRequest) -> None:
        self.request: AppendRequest = request
        self.future: Future[Placement] = Future()
        self.size_bytes: int = sum(each.size_bytes for each in request.drafts)
        #: Whether it was sent, and so may be stored.
        self.is_sent: bool = False
        self.is_withdrawn: bool = False


class WaitingAppends:
    """The queued and running appends of one partition. Thread-safe.

    `start` makes another thread, or a loop, take batches until there are none; it does not
    block. `serve` is for a caller that waits anyway: its thread takes batches until its own
    append has an outcome. `level` is what an append that was stored has reached.
    """

    def __init__(
        self,
        state: OpenState,
        clock: Clock,
        url: str,
        level: Durability,
        *,
        start: Callable[[], object],
        serve: Callable[[WaitingAppend], None] | None = None,
    ) -> None:
        self._state = state
        self._clock = clock
        self._url = url
        self._level = level
        self._start = start
        self._serve = serve
        self._lock = threading.Lock()
        self._queue: deque[WaitingAppend] = deque()
        self._under_way: list[WaitingAppend] = []
        #: The append whose caller takes the batches, if one does.
        self._serving: WaitingAppend | None = None
        self._is_draining = False
        self._is_closed = False

    # --- from any thread ---

    def append(
        self, request: AppendRequest, level: Durability, timeout_s: float | None, *, may_wait: bool
    ) -> LoopOutcome:
        """Append; see Store.append."""
        waiting = WaitingAppend(request)
        serve = self._serve if may_wait and timeout_s is None else None
        try:
            with self._lock:
                self._state.check()
                if self._is_closed:
                    raise closed_log()
                self._queue.append(waiting)
                is_first, self._is_draining = not self._is_draining, True
                if is_first and serve is not None:
                    self._serving = waiting
            if is_first and serve is not None:
                serve(waiting)
            elif is_first:
                self._start()
        except BaseException:
            # Interrupted before it took the appends that wait, perhaps.
            if self._serving is waiting and self.is_handed_on():
                self._start()
            raise
        outcome = LoopOutcome(waiting.future, self._level, self._clock)
        if may_wait:
            self._wait(waiting, outcome, level, timeout_s)
        return outcome

    def close(self) -> None:
        """Finish accepted appends, and take no more."""
        with self._lock:
            self._is_closed = True
            accepted = [*self._under_way, *self._queue]
        for each in accepted:
            # Marks errors as retrieved: each is raised to its own caller.
            each.future.exception()

    def _wait(
        self,
        waiting: WaitingAppend,
        outcome: LoopOutcome,
        level: Durability,
        timeout_s: float | None,
    ) -> None:
        try:
            outcome.wait(level, timeout_s)
        except UnavailableError as error:
            if waiting.future.done():
                raise
            withdrawn = UnavailableError(
                "the server did not take it in time, try again",
                write=waiting.request,
                url=self._url,
            )
            with self._lock:
                if waiting.future.done():
                    waiting.future.result()
                elif not waiting.is_sent:
                    waiting.is_withdrawn = True
                    waiting.future.set_exception(withdrawn)
                    raise withdrawn from error
                else:
                    raise UnknownError(error) from error

    # --- from whichever takes the batches ---

    def taken(self) -> list[WaitingAppend]:
        """Return the next batch; empty if nothing waits."""
        with self._lock:
            batch: list[WaitingAppend] = []
            size = 0
            while self._queue and len(batch) < _REQUESTS_MAX:
                size += self._queue[0].size_bytes
                if batch and size > _BYTES_MAX:
                    break
                batch.append(self._queue.popleft())
            self._is_draining = bool(batch)
            self._under_way = batch
            return batch

    def is_handed_on(self) -> bool:
        """Whether appends still wait for another thread; if not, the next one calls `start`.

        Those that were taken, and have no outcome because the thread was interrupted, fail.
        """
        with self._lock:
            self._serving = None
            self._is_draining = is_handed_on = bool(self._queue)
            taken, self._under_way = self._under_way, []
        self.fail(taken, UnavailableError("the thread that stores it was interrupted, try again"))
        return is_handed_on

    def fail(self, batch: list[WaitingAppend], error: StrandlineError) -> None:
        """Fail the appends of a batch that have no outcome yet."""
        with self._lock:
            for each in batch:
                if each.future.done():
                    continue
                found: StrandlineError = copy(error)
                if each.is_sent and not isinstance(error, UnknownError):
                    found = UnknownError(error)
                elif isinstance(found, UnavailableError):
                    found.write = each.request
                each.future.set_exception(found)

    def settle(self, batch: list[WaitingAppend], results: AppendResults) -> None:
        """Set the results of a batch's appends."""
        with self._lock:
            for each, result in zip(batch, results, strict=True):
                if each.is_withdrawn:
                    continue
                if isinstance(result, Exception):
                    each.future.set_exception(result)
                else:
                    each.future.set_result(result)

    def without_withdrawn(self, batch: list[WaitingAppend]) -> list[WaitingAppend]:
        """Return the appends of a batch whose caller still waits."""
        with self._lock:
            return [each for each in batch if not each.is_withdrawn]

    def begin_sending(self, batch: list[WaitingAppend]) -> bool:
        """Mark a batch as sent, after which no caller can withdraw; False if one has withdrawn."""
        with self._lock:
            if any(each.is_withdrawn for each in batch):
                return False
            for each in batch:
                each.is_sent = True
            return True

    def set_sent(self, batch: list[WaitingAppend], *, is_sent: bool) -> None:
        """Record whether the appends of a batch were sent, and so may be stored."""
        with self._lock:
            for each in batch:
                each.is_sent = is_sent
