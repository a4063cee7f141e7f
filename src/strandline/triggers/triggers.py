"""Runs triggers: in the calling thread, a separate one, or on a running event loop."""

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
"""How long functions may continue after a stop, by default."""

_SETTLING_S: Final = 60.0
"""How long a stop waits after that until handled records are settled."""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_logger = logging.getLogger("strandline")


class Triggers:
    """Runs triggers: calls functions for the records of a log.

    `functions` are decorated with `on`; more are added with this object's own `on`.
    Each has its own consumer and continues at that consumer's cursor. `run()` blocks the
    calling thread until SIGINT or SIGTERM, or until `stop` is called. `start()` and `with`
    use a background thread. `async with` uses the running event loop, and returns an
    `AsyncTriggers`. `async` functions run on the event loop, others in threads.

    Each record is handled at least once. If a function has returned for a record, it is not
    called for it again after `stop` has returned; it may be called again if the process was
    killed. An error of one function does not affect the others. Only an error of the log ends a
    runner: it stops all triggers, and is raised by `run`, `stop` or the end of the block.

    After a stop no more records are taken, and functions have `stop_timeout_s` to end. Then
    `async` functions are cancelled, the others are left running, and their records are
    delivered again. Runners with triggers of the same name, in any processes, share the
    partitions of the topic as a consumer group.
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
        """Add a function; the options are those of the decorator `strandline.on`."""
        check_topic(topic)
        check_options("on", terms, TriggerTerms.__optional_keys__)

        def add(function: Function) -> Function:
            self._add(trigger(function, topic, **terms))
            return function

        return add

    def metrics(self) -> Mapping[str, Counters]:
        """Return the counters of each trigger, by its name, since the runner was last started.

        Triggers of one name on several topics are counted together.
        """
        counted: dict[str, Counters] = {each.name: Counters() for each in self._triggers.values()}
        for dispatch in self._dispatches:
            counted[dispatch.trigger.name] += dispatch.totals()
        return counted

    def registered(self) -> Sequence[Trigger]:
        """Return the triggers, in the order in which they were added."""
        return tuple(self._triggers.values())

    @property
    def is_running(self) -> bool:
        """Whether records are being handled."""
        run = self._run
        return run is not None and run.is_here and not run.is_over.is_set()

    def run(self) -> None:
        """Run until stopped.

        On the main thread SIGINT and SIGTERM stop it; a second signal stops it at once.
        """
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
        """Start in a background thread, and return once it runs; `stop` ends it."""
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
                # After an interrupt the thread may start nevertheless; it stops then.
                run.end()
            raise
        if run.is_over.is_set():
            run.check()

    def _run_beside(self) -> None:
        """Run in another thread, because this one has a running loop, as in a notebook cell."""
        self.start()
        assert self._run is not None
        try:
            self._run.is_over.wait()
        finally:
            self.stop()

    def stop(self, timeout_s: float | None = None) -> None:
        """Stop as the class describes, within `timeout_s` if given, and return once stopped.

        May be called from any thread except the event loop's, and repeated. If an error of
        the log ended the runner, raises that error; UnavailableError if handled records are
        still not settled long after the timeout.
        """
        timeout_s = check_timeout(timeout_s)
        run = self._run
        if run is None or not run.is_here:
            return
        if run.is_on_its_loop():
            raise InvalidError("stop would wait for its own event loop, call request_stop")
        self.request_stop(timeout_s)
        wait_s = _SETTLING_S + (self._stop_timeout_s if timeout_s is None else timeout_s)
        if not run.is_over.wait(wait_s):
            raise UnavailableError("the triggers have not ended yet, stop again to wait")
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join(_SETTLING_S)
        run.check()

    def request_stop(self, timeout_s: float | None = None) -> None:
        """Request a stop without waiting for it. May be called from a function, too."""
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
        from strandline.triggers import AsyncTriggers  # noqa: PLC0415 - It imports this module.

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
        # If the waiting task is cancelled, the runner stops nevertheless.
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
                raise InvalidError("this runner is already running")
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
                _logger.error("the triggers were stopped by an error of the log: %s", run.error)
        except BaseException as error:  # noqa: BLE001 - Raised by `_Run.check`.
            run.error = error
        finally:
            run.end()

    def _open(self) -> list[Dispatch]:
        opened: list[Dispatch] = []
        gate = Gate(self._clock)
        try:
            for each in self._triggers.values():
                opened.append(Dispatch(self._log, each, self._clock, gate))  # noqa: PERF401 - If one fails, the earlier ones are closed.
        except BaseException:
            for dispatch in opened:
                dispatch.close()
            raise
        return opened


class _Run:
    """One run of a runner: its state that other threads use."""

    def __init__(self, stop_timeout_s: float) -> None:
        self._stop_timeout_s = stop_timeout_s
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread: int | None = None
        self._stop: Stop | None = None
        self._asked: list[float | None] = []
        self.task: asyncio.Task[None] | None = None
        #: Set on the program's own loop once the run is open; None in a background thread.
        self.opened: asyncio.Event | None = None
        self.error: BaseException | None = None
        self.is_open = Latch()
        self.is_over = Latch()
        self._pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this process began the run, and not the parent of a fork."""
        return os.getpid() == self._pid

    def enter_loop(self) -> Stop:
        """Bind the run to the running loop, and return its Stop, with earlier requests applied."""
        stop = Stop(self._stop_timeout_s)
        with self._lock:
            self._loop, self._stop = asyncio.get_running_loop(), stop
            self._loop_thread = threading.get_ident()
        for timeout_s in self._asked:
            stop.request(timeout_s)
        return stop

    def request_stop(self, timeout_s: float | None = None) -> None:
        """Request a stop. May be called from any thread, at any time."""
        with self._lock:
            if self._loop is None or self._stop is None:
                self._asked.append(timeout_s)
                return
        if self.is_on_its_loop():
            self._stop.request(timeout_s)
            return
        # Set here, because worker threads begin the next call without waiting for the loop.
        self._stop.may_begin = False
        # A closed loop has stopped.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.request, timeout_s)

    def is_on_its_loop(self) -> bool:
        """Whether the calling thread runs this run's event loop."""
        return not self.is_over.is_set() and threading.get_ident() == self._loop_thread

    def open(self) -> None:
        """Wake the callers that wait for the run to begin."""
        self.is_open.set()
        if self.opened is not None:
            self.opened.set()

    def end(self) -> None:
        """Wake all waiters."""
        self.is_over.set()
        self.open()

    def check(self) -> None:
        """Raise the error that ended the run, if there was one."""
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
            # None: the handler was not installed by Python, and cannot be restored.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
