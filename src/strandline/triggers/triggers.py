"""Runs triggers: in the calling thread, in one of its own, or on a running event loop."""

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from strandline.clock import Clock, SystemClock
from strandline.locks import Latch, start_thread
from strandline.log import AsyncLog, Log, TopicName, check_log
from strandline.triggers.counters import Counters
from strandline.triggers.dispatch import Dispatch
from strandline.triggers.gate import Gate
from strandline.triggers.stop import Stop
from strandline.triggers.trigger import (
    Function,
    Trigger,
    TriggerTerms,
    check_topic,
    trigger,
    triggers_of,
)
from strandline.values import InvalidError, Topic, UnavailableError
from strandline.values.arguments import check_items, check_options, check_seconds, check_timeout
from strandline.values.prompt import few, prompt_text

if TYPE_CHECKING:
    from strandline.triggers import AsyncTriggers

STOP_TIMEOUT_S: Final = 30.0
"""How long functions may go on after a stop, by default."""

_SETTLING_S: Final = 60.0
"""How long a stop waits beyond that, for what was handled to be settled."""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_logger = logging.getLogger("strandline")


class Triggers:
    """The functions that are called for a log's records.

    `functions` are decorated with `on`; more are added with this object's own `on`.
    Each has a consumer of its own and goes on where it ended. `run()` works in the
    calling thread until SIGINT or SIGTERM comes, or `stop` is called. `start()`
    works in a thread of its own, and `with` does that, too. `async with` works on the
    running event loop, and gives an `AsyncTriggers`. Functions that are `async` run on that
    loop, others in threads.

    Each record is handled at least once: a function that returned is not called for
    the record again once `stop` has returned, and may be if the process was killed.
    What a function raises harms no other. Only the log itself can end a runner: what it
    raised stops all triggers, and comes out of `run`, `stop` or the block.

    Stopping takes no more records and lets functions end within `stop_timeout_s`. Then
    those that are `async` are cancelled, the others are left alone, and their records
    come again. Runners of one trigger's name, in any processes, share the partitions of
    its topic as a group.
    """

    def __init__(
        self,
        log: Log | AsyncLog,
        functions: Iterable[Callable[..., Any]] = (),
        *,
        stop_timeout_s: float = STOP_TIMEOUT_S,
        clock: Clock | None = None,
    ) -> None:
        check_log(log)
        stop_timeout_s = check_seconds("stop_timeout_s", stop_timeout_s)
        self._log = log.blocking if isinstance(log, AsyncLog) else log
        self._clock = clock or SystemClock()
        self._stop_timeout_s = stop_timeout_s
        self._triggers: dict[tuple[str, str], Trigger] = {}
        self._dispatches: list[Dispatch] = []
        self._lock = threading.Lock()
        self._run: _Run | None = None
        self._thread: threading.Thread | None = None
        if not isinstance(functions, Iterable):
            raise InvalidError("pass a list of functions, write [f]", functions=repr(functions))
        for function in check_items("functions", functions):
            for each in triggers_of(function):
                self._add(each)

    def on(self, topic: TopicName, **terms: Unpack[TriggerTerms]) -> Callable[[Function], Function]:
        """Add a function, as the decorator `strandline.on` describes it."""
        check_topic(topic)
        check_options("on", terms, TriggerTerms.__optional_keys__)

        def add(function: Function) -> Function:
            self._add(trigger(function, topic, **terms))
            return function

        return add

    def metrics(self) -> Mapping[str, Counters]:
        """Return what each trigger has done, by its name, since the runner was started last.

        Triggers of one name on several topics are counted together.
        """
        counted: dict[str, Counters] = {each.name: Counters() for each in self._triggers.values()}
        for dispatch in self._dispatches:
            counted[dispatch.trigger.name] += dispatch.totals()
        return counted

    def registered(self) -> Sequence[Trigger]:
        """Return the triggers that were added, in this order."""
        return tuple(self._triggers.values())

    @property
    def is_running(self) -> bool:
        """Whether records are being handled."""
        run = self._run
        return run is not None and run.is_here and not run.is_over.is_set()

    def run(self) -> None:
        """Work until stopped. On the main thread SIGINT and SIGTERM stop it, a second at once."""
        if _is_on_a_loop():
            self._run_beside()
            return
        run = self._begin()
        try:
            asyncio.run(self._work(run, handles_signals=_is_main_thread()))
        finally:
            run.end()
        run.check()

    def start(self) -> None:
        """Work in a thread of its own, from when this returns until `stop`."""
        run = self._begin()
        self._thread = thread = threading.Thread(
            target=lambda: asyncio.run(self._work(run)), name="strandline-triggers", daemon=True
        )
        try:
            start_thread(thread)
            run.is_open.wait()
        except BaseException:
            run.request_stop()
            if not thread.is_alive():
                # Interrupted, it may start even so, and stops then.
                run.end()
            raise
        if run.is_over.is_set():
            run.check()

    def _run_beside(self) -> None:
        """Run in another thread, since this one has a loop already, as in a notebook cell."""
        self.start()
        assert self._run is not None
        try:
            self._run.is_over.wait()
        finally:
            self.stop()

    def stop(self, timeout_s: float | None = None) -> None:
        """Stop as the class says, within `timeout_s` if given, and return when it has.

        From any thread but the event loop's. May be repeated. Raises what ended the
        runner, if that was the log; UnavailableError if it is still settling what was
        handled long after the time is up.
        """
        timeout_s = check_timeout(timeout_s)
        run = self._run
        if run is None or not run.is_here:
            return
        if run.is_on_its_loop():
            raise InvalidError("this would wait for itself, call request_stop")
        self.request_stop(timeout_s)
        wait_s = _SETTLING_S + (self._stop_timeout_s if timeout_s is None else timeout_s)
        if not run.is_over.wait(wait_s):
            raise UnavailableError("the triggers have not ended yet, stop again to wait")
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join(_SETTLING_S)
        run.check()

    def request_stop(self, timeout_s: float | None = None) -> None:
        """Have it stop, and do not wait for that. From anywhere, also from a function."""
        timeout_s = check_timeout(timeout_s)
        if self._run is not None and self._run.is_here:
            self._run.request_stop(timeout_s)

    def __repr__(self) -> str:
        names = few(each.name for each in self._triggers.values())
        return prompt_text("Triggers", self._log, names, running=self.is_running)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    async def __aenter__(self) -> "AsyncTriggers":
        from strandline.triggers import AsyncTriggers  # noqa: PLC0415 - Made of this.

        face = AsyncTriggers(self)
        await face.start()
        return face

    async def __aexit__(self, *exc: object) -> None:
        await self._stop_on_loop()

    async def _start_on_loop(self) -> asyncio.Task[None]:
        run = self._begin()
        run.opened = asyncio.Event()
        run.task = asyncio.create_task(self._work(run))
        try:
            await run.opened.wait()
        except asyncio.CancelledError:
            run.request_stop()
            raise
        if run.is_over.is_set():
            run.check()
        return run.task

    async def _stop_on_loop(self, timeout_s: float | None = None) -> None:
        run = self._run
        if run is None or run.task is None:
            return
        run.request_stop(check_timeout(timeout_s))
        # The task that waits may be cancelled: the runner stops all the same.
        await asyncio.shield(run.task)
        run.check()

    def _add(self, added: Trigger) -> None:
        if self.is_running:
            raise InvalidError("add triggers before the runner is started", name=added.name)
        topic = added.topic
        place = str(topic.id) if isinstance(topic, Topic) else topic
        if (place, added.name) in self._triggers:
            raise InvalidError(
                "two triggers of one name would share a cursor, pass name=",
                topic=place,
                name=added.name,
            )
        self._triggers[place, added.name] = added

    def _begin(self) -> "_Run":
        with self._lock:
            if self.is_running:
                raise InvalidError("this runner runs already")
            if not self._triggers:
                raise InvalidError("there is nothing to run, add a function with @on")
            self._run = _Run(self._stop_timeout_s)
            return self._run

    async def _work(self, run: "_Run", *, handles_signals: bool = False) -> None:
        try:
            stop = run.enter_loop()
            self._dispatches = await asyncio.to_thread(self._open)
            run.open()
            with _signals(stop) if handles_signals else contextlib.nullcontext():
                works = [asyncio.create_task(each.run(stop)) for each in self._dispatches]
                await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
                stop.request()
                await asyncio.wait(works)
            run.error = next((error for work in works if (error := work.exception())), None)
            if run.error is not None:
                _logger.error("the triggers have ended, since the log failed one: %s", run.error)
        except BaseException as error:  # noqa: BLE001 - Raised by the waits for this run.
            run.error = error
        finally:
            run.end()

    def _open(self) -> list[Dispatch]:
        opened: list[Dispatch] = []
        gate = Gate(self._clock)
        try:
            for each in self._triggers.values():
                opened.append(Dispatch(self._log, each, self._clock, gate))  # noqa: PERF401 - Those before it are closed.
        except BaseException:
            for dispatch in opened:
                dispatch.close()
            raise
        return opened


class _Run:
    """One run of a runner, as other threads see it."""

    def __init__(self, stop_timeout_s: float) -> None:
        self._stop_timeout_s = stop_timeout_s
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread: int | None = None
        self._stop: Stop | None = None
        self._asked: list[float | None] = []
        self.task: asyncio.Task[None] | None = None
        #: Set on the loop that it works on, if that is the program's.
        self.opened: asyncio.Event | None = None
        self.error: BaseException | None = None
        self.is_open = Latch()
        self.is_over = Latch()
        self._pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether it is of this process, and not of the parent of a fork."""
        return os.getpid() == self._pid

    def enter_loop(self) -> Stop:
        """Make the stop that this run obeys, on its loop."""
        stop = Stop(self._stop_timeout_s)
        with self._lock:
            self._loop, self._stop = asyncio.get_running_loop(), stop
            self._loop_thread = threading.get_ident()
        for timeout_s in self._asked:
            stop.request(timeout_s)
        return stop

    def request_stop(self, timeout_s: float | None = None) -> None:
        """From any thread, at any time."""
        with self._lock:
            if self._loop is None or self._stop is None:
                self._asked.append(timeout_s)
                return
        if self.is_on_its_loop():
            self._stop.request(timeout_s)
            return
        # At once: a thread that calls functions does not wait for the loop between two of them.
        self._stop.may_begin = False
        # A loop that is closed has stopped.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.request, timeout_s)

    def is_on_its_loop(self) -> bool:
        """Whether the calling thread is the one that this run works on."""
        return not self.is_over.is_set() and threading.get_ident() == self._loop_thread

    def open(self) -> None:
        """Wake those that wait for it to begin."""
        self.is_open.set()
        if self.opened is not None:
            self.opened.set()

    def end(self) -> None:
        """Wake all waiters."""
        self.is_over.set()
        self.open()

    def check(self) -> None:
        """Raise what ended it, if anything did."""
        if self.error is not None:
            raise self.error


@contextlib.contextmanager
def _signals(stop: Stop) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop.request_or_force)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            loop.remove_signal_handler(number)
            # None stands for a handler that was not installed by Python, which is lost.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
