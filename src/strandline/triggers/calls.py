"""Calls of a trigger's function: on the event loop, or in threads if it blocks."""

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Generic, TypeVar

from strandline.clock import Clock
from strandline.subscriptions import Delivery
from strandline.subscriptions.pages import POLL_S
from strandline.triggers.entry import ActiveDelivery, is_async
from strandline.triggers.handing_over import HandingOver
from strandline.triggers.settling import Verdict
from strandline.triggers.shared_timer import wait_until
from strandline.triggers.subjects import Subjects
from strandline.triggers.trigger import Trigger
from strandline.triggers.turns import Failure, Outcome, Turns
from strandline.triggers.workers import Workers, call_on, returned_by
from strandline.values import Record, UnavailableError

T = TypeVar("T")

_logger = logging.getLogger("strandline")

RUN_S: Final = 0.001
"""After this time, calls that never wait let the loop run its other tasks, between two calls."""


class BegunCall(Generic[T]):
    """Awaits a coroutine in its own context, and records whether the coroutine has waited."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], context: contextvars.Context) -> None:
        self._coroutine = coroutine
        self._context = context
        self.has_waited: bool = False

    def __await__(self) -> Generator[Any, Any, T]:
        run, send, sent = self._context.run, self._coroutine.send, None
        try:
            awaited = run(send, None)
            while True:
                self.has_waited = True
                try:
                    sent = yield awaited
                except BaseException as error:  # noqa: BLE001 - Thrown into the coroutine.
                    awaited = run(self._coroutine.throw, error)
                else:
                    awaited = run(send, sent)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


class Calls:
    """Calls the function of one trigger for each record that may begin.

    Each call has a copy of the runner's context. Calls of an `async` function share a task
    until one of them waits; that task makes no further call. Blocking functions are called by
    threads, each of which takes records until none is ready. The event loop runs suspects: the
    delivery of a suspect is counted before its call, and the next call begins only after the
    suspect is settled.
    """

    def __init__(
        self,
        trigger: Trigger,
        turns: Turns,
        subjects: Subjects,
        handing_over: HandingOver,
        *,
        processing: Callable[[Record], AbstractContextManager[object]] | None,
        clock: Clock,
    ) -> None:
        self._trigger = trigger
        self._turns = turns
        self._subjects = subjects
        self._handing_over = handing_over
        self._processing = processing
        self._clock = clock
        self._workers = Workers(trigger.concurrency, trigger.name)
        self._is_async = is_async(trigger.function)
        # A span is current in one task only, so the call has to run there.
        self._is_in_threads = not self._is_async and processing is None
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._tasks: dict[asyncio.Task[None], ActiveDelivery | None] = {}
        """The record of each task on the loop; None before the task has taken one."""
        self._is_stopping = False

    def begin(self) -> None:
        """Begin all calls that may begin now. On the loop."""
        while (suspect := self._turns.begin_alone()) is not None:
            if not self._is_ended(suspect):
                self._start(suspect, self._run_alone(suspect))
        self._wake_worker()

    async def end(self, timeout_s: float) -> list[ActiveDelivery]:
        """Cancel the running calls, and return their records, which are handed back.

        A function in a thread cannot be cancelled; its result is ignored.
        """
        self._is_stopping = True
        tasks = [*self._tasks]
        left = self._turns.abandon(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=timeout_s)
            # A task that was cancelled before it began has not called `end`.
            self._turns.abandon([self._tasks[task] for task in stuck])
        return left

    def release_unsettled(self) -> None:
        """Wake the tasks of suspects, which would otherwise wait for ever to be settled."""
        for entry in self._tasks.values():
            if entry is not None and entry.settled is not None:
                entry.settled.set()

    def close(self) -> None:
        """Let the threads end."""
        self._workers.close()

    def _wake_worker(self) -> None:
        if self._turns.wakes_worker():
            if self._is_in_threads:
                self._workers.submit(self._work)
            else:
                self._start(None, self._work_on_loop())

    # --- choosing a record ---

    def _next(self) -> ActiveDelivery | None:
        """Return the next record that the function is to be called for."""
        while (entry := self._turns.begin()) is not None:
            if not self._is_ended(entry):
                return entry
        return None

    def _is_ended(self, entry: ActiveDelivery) -> bool:
        """End or put back a record that needs no call now; False if it needs one."""
        outcome: Outcome = None
        if self._handing_over.returns(entry):
            outcome = entry.finished(Verdict.RETURNED)
        elif not entry.is_held:
            if not entry.is_gone:
                self._turns.put_back(entry)
                return True
            outcome = entry.finished(Verdict.LOST)
        elif not entry.is_suspect:
            if entry.record is None and entry.error is None:
                self._subjects.restore(entry)
            outcome = self._outcome_without(entry)
        if outcome is None:
            return False
        self._turns.end(entry, outcome)
        return True

    def _outcome_without(self, entry: ActiveDelivery) -> Outcome:
        """Return the outcome of a record that needs no call; None if it needs one."""
        try:
            verdict = self._subjects.verdict_of(entry)
        except Exception as error:  # noqa: BLE001 - An unreadable record is a failure.
            return Failure(entry, error)
        return None if verdict is None else entry.finished(verdict)

    def _outcome_of(self, entry: ActiveDelivery, error: BaseException | None) -> Outcome:
        if error is not None:
            return Failure(entry, error)
        self._subjects.note_handled(entry)
        return entry.finished(Verdict.HANDLED)

    def _arguments(self, entry: ActiveDelivery) -> tuple[Any, ...]:
        if self._trigger.takes_delivery:
            assert entry.record is not None
            return entry.record, Delivery(entry.record, entry.delivered.count)
        return (entry.record,)

    # --- in threads ---

    def _work(self) -> None:
        """Call the function for one record after another, in a thread."""
        turns, function = self._turns, self._trigger.function
        turns.worker_is_here()
        while (entry := self._next()) is not None:
            # Before the call, which may take long while other records are ready.
            self._wake_worker()
            context = self._context.copy()
            result, error = returned_by(context, function, *self._arguments(entry))
            if result is not None and inspect.isawaitable(result):
                call_on(self._loop, self._await, entry, result)
            else:
                turns.end(entry, self._outcome_of(entry, error))

    def _await(self, entry: ActiveDelivery, result: Awaitable[object]) -> None:
        if entry in self._turns.running:
            self._start(entry, self._run(entry, result))
        elif inspect.iscoroutine(result):
            result.close()

    # --- on the loop ---

    def _start(self, entry: ActiveDelivery | None, call: Coroutine[Any, Any, None]) -> None:
        # This may be called in the context of a thread.
        task = self._loop.create_task(call, context=self._context.copy())
        self._tasks[task] = entry

    async def _work_on_loop(self) -> None:
        """Call the function for one record after another, until a call has waited."""
        task, until = _current_task(), self._loop.time() + RUN_S
        self._turns.worker_is_here()
        while (entry := self._next()) is not None:
            self._wake_worker()
            self._tasks[task] = entry
            call = BegunCall(self._called(entry), self._context.copy())
            outcome = await self._outcome(entry, call)
            self._turns.end(entry, outcome)
            # If the function has left a cancellation request on the task, no other call
            # may receive it.
            if call.has_waited or task.cancelling() or self._loop.time() > until:
                break
        self._leave(task)

    async def _run(self, entry: ActiveDelivery, result: Awaitable[object]) -> None:
        """Await the awaitable that a blocking function has returned."""
        outcome = await self._outcome(entry, self._awaited(entry, result))
        self._turns.end(entry, outcome)
        self._leave(_current_task())

    async def _run_alone(self, entry: ActiveDelivery) -> None:
        try:
            outcome = await self._outcome(entry, self._called_alone(entry))
            if outcome is not None and entry.settled is not None:
                self._turns.note(entry, outcome)
                # Otherwise, if the next call ended the process, the log would suspect this
                # record.
                await entry.settled.wait()
        finally:
            self._turns.end(entry, None)
            self._leave(_current_task())

    async def _outcome(self, entry: ActiveDelivery, call: Awaitable[Outcome]) -> Outcome:
        try:
            return await call
        except asyncio.CancelledError as cancelled:
            # At a stop the record is handed back, and is delivered again.
            return None if self._is_stopping else Failure(entry, cancelled)
        except BaseException as failure:  # noqa: BLE001 - Whatever a function raises is its failure.
            return Failure(entry, failure)

    def _leave(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self.begin()

    async def _called(self, entry: ActiveDelivery) -> Outcome:
        record, function = entry.record, self._trigger.function
        assert record is not None
        with nullcontext() if self._processing is None else self._processing(record):
            if self._is_async:
                await function(*self._arguments(entry))
                return self._outcome_of(entry, None)
            result, error = await self._workers.run(function, *self._arguments(entry))
            if error is not None:
                raise error
            if inspect.isawaitable(result):
                await result
            return self._outcome_of(entry, None)

    async def _awaited(self, entry: ActiveDelivery, result: Awaitable[object]) -> Outcome:
        await result
        return self._outcome_of(entry, None)

    async def _called_alone(self, entry: ActiveDelivery) -> Outcome:
        while True:
            try:
                await asyncio.to_thread(entry.source.consumer.begin_alone, entry.delivered)
            except UnavailableError as error:
                _logger.warning("trigger %s cannot count yet: %s", self._trigger.name, error)
                await wait_until(self._clock, asyncio.Event(), POLL_S)
            else:
                break
        self._subjects.read(entry)
        outcome = self._outcome_without(entry)
        return await self._called(entry) if outcome is None else outcome


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task
