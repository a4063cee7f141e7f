"""Draining for a store that several processes share."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Final, TypeVar

from strandline.values import (
    Durability,
    FailedError,
    FullError,
    StrandlineError,
    UnavailableError,
    UnknownError,
)
from strandline.writes.channel import Barrier, Channel, Item
from strandline.writes.contracts import Bracket, C, Delta, F, R, S, V, W
from strandline.writes.drain import Drain, make_view, rejection
from strandline.writes.metrics import SAMPLE_MASK, FlushReason
from strandline.writes.receipt import WriteReceipt, refused
from strandline.writes.view import WriteView

# Looking up an enumeration's members is slow.
_APPLIED: Final = Durability.APPLIED
_DURABLE: Final = Durability.DURABLE
_BRACKET = FlushReason.BRACKET

T = TypeVar("T")
"""A write in the form that `store` takes it."""


class BracketedChannel(Channel[W, R]):
    """A channel into a store that several processes share."""

    def __init__(
        self, name: str, capacity: int, drain: BracketedDrain[W, R, Any, Any, Any, Any]
    ) -> None:
        super().__init__(name, capacity, drain)
        self._bracketed = drain

    def write(
        self, write: W, level: Durability = _APPLIED, timeout_s: float | None = None
    ) -> WriteReceipt[R]:
        # The fast path: a bracket for this write alone, if nothing has to be waited for.
        drain = self._bracketed
        if not drain.epoch & SAMPLE_MASK and self._begins_sample():
            return self._measured(write, level, timeout_s)
        if not drain.attempt:
            return self._write_queued(write, level, timeout_s)
        try:
            try:
                if self._items or self._paused or not drain.is_direct:
                    receipt = None
                else:
                    receipt = drain.write_now(write, timeout_s)
            except UnavailableError as exc:
                receipt = refused(self.storage, _handed_back(write, self.name, exc))
            finally:
                drain.lock.release()
            if drain.drain_pending:
                drain.pass_on()
        except BaseException:
            drain.pass_on()
            raise
        if receipt is None:
            return self._write_queued(write, level, timeout_s)
        if level is not _APPLIED and (level is _DURABLE or receipt.error):
            self._wait(receipt, level, timeout_s)
        return receipt

    def try_write(self, write: W, timeout_s: float | None = None) -> WriteReceipt[R]:
        # The fast path of `write`, as long as nothing has to be waited for.
        drain, is_first = self._bracketed, False
        if not drain.attempt:
            return self._try_queued(write, timeout_s)
        try:
            try:
                is_first = not self._items and not self._paused and drain.is_direct
                receipt = drain.write_now(write, 0.0, may_wait=False) if is_first else None
            except UnavailableError:
                receipt = None
            finally:
                drain.lock.release()
            if drain.drain_pending:
                drain.pass_on()
        except BaseException:
            drain.pass_on()
            raise
        if receipt is not None:
            return receipt
        if not is_first:
            return self._try_queued(write, timeout_s)
        receipt = self._accept(write, timeout_s)
        drain.pass_on()
        return receipt

    def store(
        self, write: T, enter: Callable[[], Any], store: Callable[[T, Any], R | None]
    ) -> WriteReceipt[R] | None:
        """Have `store` take a write through a bracket; None, with nothing done, if it cannot.

        `enter` enters the bracket and returns the context; None if it would have to wait.
        `store` applies and flushes in one call, with the context, and returns the result;
        None, with nothing done, if it leaves the write to `write`. Views do not show what
        it stores.
        """
        drain = self._bracketed
        # Measured writes take the general path.
        if not drain.epoch & SAMPLE_MASK or not drain.attempt:
            return None
        try:
            try:
                is_first = not self._items and not self._paused and drain.is_direct
                receipt = drain.store_now(write, enter, store) if is_first else None
            finally:
                drain.lock.release()
            if drain.drain_pending:
                drain.pass_on()
        except BaseException:
            drain.pass_on()
            raise
        return receipt


class _Outcome:
    """The outcome of an item, published after the bracket has been left."""

    __slots__ = ("epoch", "error", "item", "result")

    def __init__(self, item: Item[Any, Any], epoch: int) -> None:
        self.item = item
        self.epoch = epoch
        self.result: Any = None
        self.error: Exception | None = None

    def settle(self, failure: BaseException | None) -> None:
        if self.error is None and failure is not None:
            self.error = _unknown(failure)
        if self.error is None:
            self.item.receipt.accept_written(self.epoch, self.result)
        else:
            self.item.receipt.refuse(self.error, self.epoch)


class BracketedDrain(Drain[W, R, F, V, S, C]):
    """Enters the bracket, applies what is queued, flushes it, leaves: applied = written.

    The outcome of a write is published after the bracket has been left. If the bracket
    cannot be entered before a write's deadline, the write is handed
    back and nothing of it is stored.
    """

    epoch: int
    rejected: int
    drain_pending: bool

    def __init__(self, *args: Any, bracket: Bracket[C], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._bracket = bracket
        self.storage.goes_on_when_full = True
        #: Never applied to: each bracket begins with a new delta.
        self._idle: Final = self._delta
        self._context: C
        self._is_inside = False
        self._timeout_s = self._settings.bracket_timeout_s

    def _new_channel(self, name: str) -> Channel[W, R]:
        return BracketedChannel(name, self._settings.queue_capacity, self)

    @property
    def applied(self) -> int:
        return self.storage.written.mark.value

    def deadline(self, timeout_s: float | None) -> float:
        wanted = self._settings.bracket_timeout_s if timeout_s is None else timeout_s
        return self._clock.monotonic() + wanted

    def expiry(self, item: Item[W, R]) -> float | None:
        return item.deadline

    def view(self) -> WriteView[V, F, S]:
        return self.view_locked()

    def view_locked(self) -> WriteView[V, F, S]:
        stored = self.storage.stored
        applied = 0 if stored[1] is None else stored[1][1].stop - 1
        return make_view(self._idle.reader(), (), stored, applied, start=0)

    def _update_backlog(self) -> None:
        """There is no backlog: what is frozen is flushed before the bracket is left."""

    # --- a single write ---

    def write_now(
        self, write: W, timeout_s: float | None, *, may_wait: bool = True
    ) -> WriteReceipt[R]:
        """Apply and flush `write` in a separate bracket. The caller holds `lock`.

        UnavailableError, and nothing done, if the bracket cannot be entered.
        """
        try:
            try:
                within_s = self._timeout_s if timeout_s is None else timeout_s
                context = self._bracket.enter(within_s, may_wait=may_wait)
            except UnavailableError:
                raise
            except Exception as exc:
                self._fail(exc)
                return refused(self.storage, FailedError(exc))
            self._is_inside = True
            return self._write_inside(write, context)
        except BaseException as exc:
            if self._is_inside:
                self._leave(self._fail(exc))
            raise

    def store_now(
        self, write: T, enter: Callable[[], C | None], store: Callable[[T, C], R | None]
    ) -> WriteReceipt[R] | None:
        """See BracketedChannel.store. The caller holds `lock`."""
        try:
            try:
                context = enter()
            except Exception as exc:
                self._fail(exc)
                return refused(self.storage, FailedError(exc))
            if context is None:
                return None
            self._is_inside = True
            return self._store_inside(write, context, store)
        except BaseException as exc:
            if self._is_inside:
                self._leave(self._fail(exc))
            raise

    def _store_inside(
        self, write: T, context: C, store: Callable[[T, C], R | None]
    ) -> WriteReceipt[R] | None:
        storage, epoch = self.storage, self.epoch + 1
        result: R | None = None
        error: Exception | None = None
        failure: BaseException | None = None
        try:
            if self._ending.reason is not None:
                error = self._ending.reason()
            else:
                storage.flushed_at = started = self._clock.monotonic()
                result = store(write, context)
                if result is not None:
                    storage.flush_s += self._clock.monotonic() - started
                    self.epoch = epoch
                    self._start = epoch + 1
                    self.flushes[_BRACKET] += 1
                    mark = storage.written.mark
                    mark.value = epoch
                    if mark.waiters:
                        mark.wake_reached()
        except FullError as exc:
            error = _not_stored(exc, write)
        except BaseException as exc:
            failure = self._fail(exc)
            error = _unknown(failure)
        interrupt = self._leave(failure)
        if interrupt is not None and not isinstance(interrupt, Exception):
            raise interrupt
        if error is not None:
            return refused(storage, error, epoch)
        return None if result is None else WriteReceipt(storage, epoch, result)

    def _write_inside(self, write: W, context: C) -> WriteReceipt[R]:
        storage = self.storage
        epoch = self.epoch
        result: R | None = None
        error: Exception | None = None
        failure: BaseException | None = None
        try:
            if self._ending.reason is not None:
                error = self._ending.reason()
            else:
                self.epoch = epoch = epoch + 1
                # On Python 3.11, calling an instance attribute by its full name is slow.
                new_delta = self._new_delta
                self._delta = delta = new_delta(context)
                result, error = self._apply(delta, write)
                if error is None:
                    # The size is needed only to measure a flush.
                    self._size = 0 if self._start - 1 & SAMPLE_MASK else delta.size()
                    self.freeze(_BRACKET)
                if not storage.flush_frozen():
                    raise self._ending.cut_short()
                if error is not None:
                    storage.written.mark.advance(epoch)
        except FullError as exc:
            self._drop_frozen()
            error = error or _not_stored(exc, write)
        except BaseException as exc:
            failure = self._fail(exc)
            error = error or _unknown(failure)
        interrupt = self._leave(failure)
        if interrupt is not None and not isinstance(interrupt, Exception):
            raise interrupt
        if error is not None:
            return refused(storage, error, epoch, result)
        return WriteReceipt(storage, epoch, result)

    def _apply(
        self, delta: Delta[W, R, F, V, C], write: W
    ) -> tuple[R | None, StrandlineError | None]:
        """Apply a write of the current epoch; return its result, or the error that refuses it."""
        started = None if self.epoch - 1 & SAMPLE_MASK else self._clock.monotonic()
        try:
            result = delta.apply(write)
            if started is not None:
                self.storage.measured.apply.add_s(self._clock.monotonic() - started)
        except Exception as exc:
            self.rejected += 1
            return None, rejection(exc, self.epoch)
        self._is_fresh = True
        return result, None

    # --- all that is queued ---

    def _round(self, *, may_wait: bool, until: float | None = None) -> None:
        self.drain_pending = False
        if not self._started or self._ending.reason is not None:
            return
        self._accept_leading_barriers()
        if any(channel.head() for channel in self.channels) and self._enter(may_wait, until):
            self._drain_inside()

    def _give_up_taken(self, cause: BaseException) -> None:
        if self._is_inside:
            self._leave(self._fail(cause))
        super()._give_up_taken(cause)

    def _accept_leading_barriers(self) -> None:
        """Accept flushes that have no write ahead of them: they need no bracket."""
        for channel in self.channels:
            if isinstance(barrier := channel.head(), Barrier) and channel.withdraw(barrier):
                self._accept_barrier(barrier, self.epoch)

    def _enter(self, may_wait: bool, until: float | None) -> bool:
        deadlines = [d for c in self.channels if (d := c.earliest_deadline()) is not None]
        deadlines += [] if until is None else [until]
        deadline = min(deadlines) if may_wait and deadlines else 0.0
        try:
            timeout_s = max(0.0, deadline - self._clock.monotonic())
            context = self._bracket.enter(timeout_s, may_wait=may_wait)
        except UnavailableError as exc:
            self._hand_back(deadline, exc)
            self.drain_pending = True
            return False
        except Exception as exc:
            self._fail(exc)
            return False
        self._is_inside = True
        self._context = context
        return True

    def _hand_back(self, deadline: float, cause: UnavailableError) -> None:
        for channel in self.channels:
            for item in channel.take_expired(deadline):
                item.receipt.refuse(_handed_back(item.write, channel.name, cause))

    def _drain_inside(self) -> None:
        outcomes: list[_Outcome] = []
        failure: BaseException | None = None
        try:
            self._delta = self._new_delta(self._context)
            self._serve_queues(lambda item: self._apply_item(item, outcomes))
            self.freeze(_BRACKET)
            if not self.storage.flush_frozen():
                raise self._ending.cut_short()
            self.storage.written.mark.advance(self.epoch)
        except FullError as exc:
            self._drop_frozen()
            for outcome in outcomes:
                if not isinstance(outcome.item, Barrier):
                    outcome.error = outcome.error or _not_stored(exc, outcome.item.write)
        except BaseException as exc:
            failure = self._fail(exc)
        interrupt = self._leave(failure)
        for outcome in outcomes:
            if failure is None and isinstance(outcome.item, Barrier):
                self._accept_barrier(outcome.item, outcome.epoch)
            else:
                outcome.settle(failure)
        self.storage.durable.call_next()
        if interrupt is not None and not isinstance(interrupt, Exception):
            raise interrupt

    def _apply_item(self, item: Item[W, R], outcomes: list[_Outcome]) -> bool:
        """Apply one item; False when the delta has grown large enough to be flushed."""
        is_barrier = isinstance(item, Barrier)
        self.epoch += not is_barrier
        outcome = _Outcome(item, self.epoch)
        outcomes.append(outcome)
        if is_barrier:
            return True
        outcome.result, outcome.error = self._apply(self._delta, item.write)
        if outcome.error is not None:
            return True
        self._size = self._delta.size()
        return self._size < self._flush_bytes

    def _drop_frozen(self) -> None:
        """Continue after a flush that stored nothing: each of its writes gets the error."""
        self.storage.frozen.clear()
        self.storage.written.mark.advance(self.epoch)

    def _leave(self, failure: BaseException | None) -> BaseException | None:
        """Leave the bracket; written writes stay written if that fails."""
        try:
            self._bracket.leave()
        except BaseException as exc:
            if not isinstance(exc, Exception):
                # The interrupt may have come before the lock was released.
                self._bracket.leave()
            failure = failure or self._fail(exc)
        self._is_inside = False
        return failure


def _not_stored(cause: FullError, write: object) -> FullError:
    error = copy(cause)
    error.write = write
    return error


def _handed_back(write: object, channel: str, cause: UnavailableError) -> UnavailableError:
    if isinstance(cause, FullError):
        return _not_stored(cause, write)
    error = UnavailableError(
        f"this write was not stored, try it again ({cause})",
        write=write,
        channel=channel,
    )
    # The message has its fields already.
    error.fields = {**error.fields, **cause.fields}
    error.__cause__ = cause
    return error


def _unknown(failure: BaseException) -> UnknownError:
    return UnknownError(failure.cause if isinstance(failure, FailedError) else failure)
