"""A view's background thread: reads pages, has them applied, writes snapshots."""

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection
from typing import Final, Generic

from strandline.clock import Clock
from strandline.locks import Latch, start_thread
from strandline.log import Log
from strandline.subscriptions.cursor import Cursor, Cursors, Need, TopicPartition
from strandline.subscriptions.pages import POLL_S
from strandline.values import (
    ClosedError,
    Offset,
    Partition,
    StrandlineError,
    Topic,
    TrimmedError,
    UnavailableError,
)
from strandline.views.errors import StoppedError
from strandline.views.fold import Fold, PoisonError
from strandline.views.saving import Saving
from strandline.views.shared_pages import PAGE_RECORDS, shared_pages
from strandline.views.view import StateT, View

_logger = logging.getLogger("strandline")


def _reason(fault: BaseException | None) -> str | None:
    # The name of a file in it is another one each time.
    return None if fault is None else getattr(fault, "strerror", None) or str(fault)


def _closed() -> ClosedError:
    return ClosedError("this view was closed, open it again")


class Request:
    """An action for the pump's thread."""

    def __init__(self, action: Callable[[], None]) -> None:
        self.action = action
        self.done: Final = Latch()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Run the action; its error is kept for the caller."""
        try:
            self.action()
        except BaseException as error:
            self.error = error
            if not isinstance(error, Exception):
                raise
        finally:
            self.done.set()

    def refuse(self, error: BaseException) -> None:
        """Complete it with an error: it will not be run."""
        self.error = error
        self.done.set()


class Pump(Generic[StateT]):
    """Keeps the folds of one view up to date.

    Members without a comment are for the pump's own thread only.
    """

    def __init__(
        self,
        log: Log,
        topic: Topic,
        view: View[StateT],
        saving: Saving[StateT],
        clock: Clock,
        *,
        quarantines: bool,
        on_poll: Callable[[], None],
    ) -> None:
        self._on_poll = on_poll
        self._log = log
        self._topic = topic
        self._view = view
        self._saving = saving
        self._clock = clock
        self._quarantines = quarantines
        self._watch = log.watch()
        self._pages = shared_pages(log)
        self._cursors = Cursors(behind_max=PAGE_RECORDS)
        self._served: dict[int, Fold[StateT]] = {}
        self._poll_at = clock.monotonic() + POLL_S
        self._requests: deque[Request] = deque()
        self._entered: deque[Fold[StateT]] = deque()
        self._to_open: deque[Fold[StateT]] = deque()
        self._thread: threading.Thread | None = None
        #: Identifies the thread that does the work; any other one ends.
        self._serving: object | None = None
        self._lock = threading.Lock()
        self._is_stopping = False
        self._saves_last = False
        self.cause: BaseException | None = None
        """The error that ended it, unless it was closed."""
        self.is_over: bool = False

    # --- for any thread ---

    @property
    def is_running(self) -> bool:
        """Whether it is running, or will start when it has something to do."""
        thread = self._thread
        return not self.is_over and not self._is_stopping and (not thread or thread.is_alive())

    def enter(self, folds: Collection[Fold[StateT]]) -> None:
        """Keep these folds up to date, too, until they are no longer assigned."""
        with self._lock:
            if not self.is_over:
                self._entered.extend(folds)
        if self.is_over:
            for fold in folds:
                fold.stop(_closed())
        elif folds:
            self._wake()

    def request(self, action: Callable[[], None]) -> Request:
        """Run `action` on the pump's thread, between two pages."""
        request = Request(action)
        with self._lock:
            if self.is_over or self._is_stopping:
                request.refuse(_closed())
                return request
            self._requests.append(request)
        self._wake()
        return request

    def wake(self) -> None:
        """Check for changes soon."""
        with contextlib.suppress(ClosedError):
            self._watch.wake()

    def stop(self, *, save: bool) -> None:
        """Stop soon, after a last snapshot if `save`."""
        with self._lock:
            self._saves_last = save
            self._is_stopping = True
            if self._thread is None:
                self.is_over = True
        self.wake()
        if self._thread is None:
            self._watch.close()

    def join(self, timeout_s: float | None) -> bool:
        """Return whether it has ended within the time; True if called by the pump itself."""
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout_s)
        return not thread.is_alive()

    def _wake(self) -> None:
        with self._lock:
            if self._thread is None and not self._is_stopping:
                self._begin_thread()
        self.wake()

    def _begin_thread(self) -> None:
        serving = object()
        thread = threading.Thread(
            target=self._run, args=(serving,), name=f"view {self._view.name}", daemon=True
        )
        try:
            self._thread, self._serving = thread, serving
            start_thread(thread)
        except BaseException:
            # Interrupted, the thread may have started or not: the next one replaces it.
            self._thread = self._serving = None
            raise

    # --- the thread ---

    def _run(self, serving: object) -> None:
        try:
            while not self._is_stopping and self._serving is serving:
                self._step()
            if self._saves_last and self._serving is serving:
                self._save_unasked(is_last=True)
        except BaseException as error:  # noqa: BLE001 - Raised by each query of the view.
            self.cause = error
        finally:
            if self._serving is serving:
                self._end()

    def _step(self) -> None:
        while self._requests:
            self._requests.popleft().run()
        self._open_entered()
        self._poll()
        if self._saving.is_due:
            self._save_unasked()
        cursor = self._cursors.turn()
        if cursor is None:
            self._wait()
        else:
            self._serve(cursor)

    def _end(self) -> None:
        with self._lock:
            self.is_over = True
            requests = tuple(self._requests)
        ending = _closed()
        if self.cause is not None:
            ending = ClosedError("the pump of this view has ended, open it again")
            ending.__cause__ = self.cause
        for request in requests:
            request.refuse(ending)
        for fold in {*self._served.values(), *self._to_open, *self._entered}:
            if fold.ending is None:
                fold.stop(ending, answering=self.cause is None)
        for place in tuple(self._cursors):
            self._leave(place)
        with contextlib.suppress(ClosedError):
            self._watch.close()

    def _wait(self) -> None:
        due = min(self._poll_at, self._saving.due_at)
        self._wait_for_hints(max(0.0, due - self._clock.monotonic()))

    def _wait_for_hints(self, timeout_s: float) -> None:
        for hint in self._watch.wait(timeout_s):
            self._cursors.hint(TopicPartition(hint.topic, hint.partition), hint.end)

    def _poll(self) -> None:
        now = self._clock.monotonic()
        if now < self._poll_at:
            return
        self._poll_at = now + POLL_S
        self._on_poll()
        self._cursors.doubt()
        for fold in (*self._served.values(), *self._to_open):
            if fold.target is None:
                self.set_target(fold)

    def set_target(self, fold: Fold[StateT]) -> None:
        """Read the partition's end, up to which the fold must apply. From any thread."""
        try:
            fold.set_target(self._log.marks(self._topic, fold.partition).high)
        except ClosedError:
            raise
        except StrandlineError as error:
            # Unknown, so the fold is not ready; each poll tries again.
            fold.fault = error

    # --- from an assignment to a cursor ---

    def _open_entered(self) -> None:
        # Invariant: a fold is always in one of the three collections, so that stopping reaches it.
        while self._entered:
            self._to_open.append(self._entered[0])
            self._entered.popleft()
        if not self._to_open:
            return
        for fold in tuple(self._to_open):
            if fold.is_released or self._open(fold):
                self._to_open.remove(fold)
        if not self._to_open:
            self._saving.release()

    def _open(self, fold: Fold[StateT]) -> bool:
        """Set the fold's state and cursor; False if that must wait."""
        place = self._place(fold)
        earlier = self._served.pop(fold.partition, None)
        if earlier is not None:
            self._leave(place)
        try:
            if not fold.is_loaded:
                self._saving.load(fold)
            self._watch.add(*place, fold.mark.value)
        except UnavailableError as error:
            fold.fault = error
            return False
        except ClosedError:
            raise
        except StrandlineError as error:
            fold.stop(StoppedError(fold.partition, None, error))
            return True
        fold.fault = None
        self._served[fold.partition] = fold
        following = Offset(fold.mark.value)
        self._cursors.add(place, following, following)
        self._pages.join(place)
        return True

    def save(self) -> None:
        """Save what has advanced; fold again where the log has lost records."""
        for fold in self._saving.save(tuple(self._served.values())):
            fold.clear_target()
            self.reopen(fold)
            self.set_target(fold)

    def _save_unasked(self, *, is_last: bool = False) -> None:
        before = self._saving.save_fault
        self.save()
        fault = self._saving.save_fault
        # The same fault again is no news, but for the last time.
        if fault is not None and (is_last or _reason(fault) != _reason(before)):
            _logger.warning(
                "view %s could not save its snapshot, what that lacks is replayed: %s",
                self._view.name,
                fault,
            )

    def reopen(self, fold: Fold[StateT]) -> None:
        """Fold again from the snapshot, or from the oldest stored record."""
        fold.unload()
        self._to_open.append(fold)
        self._served.pop(fold.partition, None)
        self._leave(self._place(fold))

    def _leave(self, place: TopicPartition) -> None:
        if self._cursors.remove(place) is not None:
            self._pages.leave(place)
        with contextlib.suppress(StrandlineError):
            self._watch.remove(*place)

    def _place(self, fold: Fold[StateT]) -> TopicPartition:
        return TopicPartition(self._topic, Partition(fold.partition))

    # --- from a cursor to the state ---

    def _serve(self, cursor: Cursor) -> None:
        fold = self._served.get(cursor.place.partition)
        if fold is None or fold.is_released or fold.ending is not None:
            self._served.pop(cursor.place.partition, None)
            self._leave(cursor.place)
            return
        cursor.markers.clear()
        if cursor.need is Need.NOTHING:
            return
        try:
            self._advance(cursor, fold)
        except UnavailableError as error:
            # Not queued: other partitions are served until the next poll.
            fold.fault = error
        except TrimmedError as error:
            fold.origin = error.oldest
            self.reopen(fold)
        except PoisonError as poison:
            self._stop_or_quarantine(fold, poison)
        except ClosedError:
            raise
        except StrandlineError as error:
            fold.stop(StoppedError(fold.partition, fold.mark.value, error))
            self._leave(cursor.place)
        else:
            fold.fault = None
            self._cursors.queue(cursor)

    def _advance(self, cursor: Cursor, fold: Fold[StateT]) -> None:
        if cursor.need is not Need.READ:
            cursor.look(self._log.marks(*cursor.place).high)
            fold.end = cursor.end
            return
        page = self._pages.read(cursor.place, cursor.next)
        fold.end = max(fold.end, cursor.end)
        if not page:
            cursor.find_nothing()
        fold.apply_page(page)
        for offset in range(cursor.next, fold.mark.value):
            cursor.deliver(offset)
        if len(self._cursors) > 1:
            # A partition that never runs out of records must not delay other partitions' hints.
            self._wait_for_hints(0.0)

    def _stop_or_quarantine(self, fold: Fold[StateT], poison: PoisonError) -> None:
        cause = poison.cause
        if self._quarantines and not isinstance(cause, MemoryError):
            fold.quarantined[poison.offset] = f"{type(cause).__qualname__}: {cause}"
            self.reopen(fold)
        else:
            fold.stop(StoppedError(fold.partition, poison.offset, cause))
            self._leave(self._place(fold))
