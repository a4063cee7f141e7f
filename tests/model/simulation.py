"""Threads that run one at a time, switched where a seed says, in virtual time.

The code under test runs unchanged on real threads, but its `threading` is the
one made here, and each of its lines is a place where another thread may go
on. The same seed gives the same interleaving. Threads that all wait for each
other are found at once, and so is a thread that waits without a wake-up to come.
"""

import contextlib
import gc
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any, Self
from uuid import UUID

from strandline.clock import RisingIds, Timer
from tests.patience import Patience

_PATIENCE_S = 30.0
#: A thread that still waits at this virtual time waits for ever.
_HORIZON_S = 2_000.0
#: A schedule takes some thousands of steps; one that takes this many does not end.
_STEPS_MAX = 300_000


class DeadlockError(AssertionError):
    """No thread can continue."""


class LivelockError(AssertionError):
    """A thread does not end."""


class AbortedError(BaseException):
    """Unwinds a simulated thread after the simulation has failed."""


class _Task:
    def __init__(self, name: str, body: Callable[[], None], spares: type[BaseException]) -> None:
        self.name = name
        self.body = body
        self.spares = spares
        self.baton = threading.Lock()
        self.baton.acquire()
        self.is_done = False
        self.waits_for: Callable[[], bool] | None = None
        self.due: float | None = None


class Simulation:
    """A seeded scheduler. `spawn` the threads, then `run`."""

    def __init__(self, seed: int, traced: str, spares: type[BaseException]) -> None:
        #: The errors by which a thread of the code under test may end.
        self.spares = spares
        self.random = random.Random(seed)
        self.now = 0.0
        self.errors: list[BaseException] = []
        self._switching = self.random.choice([0.01, 0.05, 0.2])
        self._traced = traced
        self._tasks: list[_Task] = []
        self._current: _Task | None = None
        self._over = threading.Event()
        self._aborting = False
        self._steps = 0

    # --- threads ---

    def spawn(
        self, name: str, body: Callable[[], None], spares: type[BaseException] = AbortedError
    ) -> None:
        """Add a thread that runs when the scheduler picks it, and may end by one of `spares`."""
        task = _Task(name, body, spares)
        self._tasks.append(task)
        threading.Thread(target=self._bootstrap, args=(task,), name=name, daemon=True).start()

    def run(self) -> None:
        """Run until every thread has ended; raise DeadlockError, or the first error of a thread."""
        with _uncollected():
            self._hand_over(None)
            self._wait_over()
        if self.errors:
            raise self.errors[0]

    def _wait_over(self) -> None:
        patience = Patience(os.getpid(), _PATIENCE_S)
        steps = self._steps
        while not self._over.wait(max(0.01, patience.left_s())):
            if steps != self._steps:
                steps = self._steps
                patience.renew()
            assert patience.left_s() > 0, "a simulated thread waits in the real world"

    def restart(self) -> None:
        """Run what was spawned since the end."""
        self._over.clear()
        self.run()

    def step(self) -> None:
        """Let another thread continue, perhaps."""
        me = self._current
        self._steps += 1
        if self._steps == _STEPS_MAX and me is not None:
            self._abort(LivelockError(f"{me.name} runs in a circle"))
        if me is not None and self.random.random() < self._switching:
            self._hand_over(me)

    def block(self, condition: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Wait until `condition` holds; False when the virtual time is up first."""
        me = self._current
        assert me is not None, "only simulated threads may wait"
        me.waits_for = condition
        me.due = None if timeout_s is None else self.now + max(0.0, timeout_s)
        self._hand_over(me)
        met = condition()
        me.waits_for = None
        return met

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.block(lambda: False, seconds)

    # --- the scheduler; the thread whose turn it is runs it ---

    def _bootstrap(self, task: _Task) -> None:
        task.baton.acquire()
        try:
            if not self._aborting:
                if self._traced:
                    sys.settrace(self._trace)
                task.body()
        except (AbortedError, task.spares):
            pass
        except BaseException as error:  # noqa: BLE001 - Raised by the simulation.
            self._abort(error)
        finally:
            sys.settrace(None)
            task.is_done = True
            self._hand_over(task)

    def _hand_over(self, me: _Task | None) -> None:
        chosen = self._choose()
        if chosen is me:
            self._check_abort(me)
            return
        self._current = chosen
        if chosen is None:
            self._over.set()
        else:
            chosen.baton.release()
        if me is not None and not me.is_done:
            me.baton.acquire()
            self._check_abort(me)

    def _abort(self, error: BaseException) -> None:
        self.errors.append(error)
        self._aborting = True

    def _check_abort(self, me: _Task | None) -> None:
        if self._aborting and me is not None and not me.is_done:
            raise AbortedError

    def _choose(self) -> _Task | None:
        alive = [task for task in self._tasks if not task.is_done]
        if not alive:
            return None
        if self._aborting:
            return alive[0]
        ready = [task for task in alive if self._is_ready(task)]
        if not ready:
            due = [task.due for task in alive if task.due is not None]
            if not due or min(due) > _HORIZON_S:
                blocked = ", ".join(task.name for task in alive)
                self._abort(DeadlockError(f"these wait for ever: {blocked}"))
                return alive[0]
            self.now = max(self.now, min(due))
            ready = [task for task in alive if self._is_ready(task)]
        return self.random.choice(ready)

    def _is_ready(self, task: _Task) -> bool:
        if task.waits_for is None:
            return True
        return task.waits_for() or (task.due is not None and task.due <= self.now)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if self._traced not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.step()
        return self._trace

    # --- what the code under test is given ---

    @contextlib.contextmanager
    def replacing_threading_in(self, *modules: ModuleType, by: Any = None) -> Iterator[None]:
        """Have the modules make simulated locks, events, signals and threads, or those of `by`."""
        simulated = by or _Threading(self)
        names = {"threading": simulated, "Signal": simulated.Event, "Latch": simulated.Event}
        real = [
            (module.__dict__, name, module.__dict__.get(name))
            for module in modules
            for name in names
        ]
        found = [each for each in real if each[2] is not None]
        for namespace, name, _ in found:
            namespace[name] = names[name]
        try:
            yield
        finally:
            for namespace, name, there in found:
                namespace[name] = there


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the collector from the simulated threads.

    A finalizer has lines to switch at, too. Run by the collector it would come at another
    one each time, and perhaps inside a real lock, as that of a logger.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class SimulatedLock:
    """A lock; taking it and letting it go are places to switch."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._held = False

    def acquire(self, blocking: bool = True, timeout: float = -1.0) -> bool:
        self._simulation.step()
        if self._held:
            if not blocking:
                return False
            if not self._simulation.block(lambda: not self._held, None if timeout < 0 else timeout):
                return False
        self._held = True
        return True

    def release(self) -> None:
        assert self._held, "released a lock that is not held"
        self._held = False
        self._simulation.step()

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class SimulatedEvent:
    """An event, in virtual time."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._is_set = False

    def set(self) -> None:
        self._is_set = True
        self._simulation.step()

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout_s: float | None = None) -> bool:
        return self._simulation.block(lambda: self._is_set, timeout_s)


class _Threading:
    """Stands in for the module `threading`."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def Lock(self) -> SimulatedLock:  # noqa: N802 - As in threading.
        return SimulatedLock(self._simulation)

    def Event(self) -> SimulatedEvent:  # noqa: N802 - As in threading.
        return SimulatedEvent(self._simulation)

    def Thread(self, *, target: Callable[..., None], **options: Any) -> "_Starter":  # noqa: N802
        args, kwargs = options.get("args") or (), options.get("kwargs") or {}
        return _Starter(self._simulation, options["name"], lambda: target(*args, **kwargs))


class _Starter:
    def __init__(self, simulation: Simulation, name: str, body: Callable[[], None]) -> None:
        self._simulation = simulation
        self._name = name
        self._body = body

    def start(self) -> None:
        self._simulation.spawn(self._name, self._body, self._simulation.spares)


class SimulatedClock:
    """A Clock that shows the simulation's time."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._ids = RisingIds(self.now_us, self.random_bytes)

    def now_us(self) -> int:
        return 1_700_000_000_000_000 + int(self._simulation.now * 1_000_000)

    def monotonic(self) -> float:
        return self._simulation.now

    def call_later(self, delay_s: float, action: Callable[[], None]) -> Timer:
        timer = _SimulatedTimer(self._simulation, delay_s, action)
        self._simulation.spawn("timer", timer.run, self._simulation.spares)
        return timer

    def wait(self, event: Any, timeout_s: float | None) -> bool:
        return bool(event.wait(timeout_s))

    def new_id(self) -> UUID:
        return self._ids.next()

    def random_bytes(self, count: int) -> bytes:
        return self._simulation.random.randbytes(count)


class _SimulatedTimer:
    def __init__(self, simulation: Simulation, delay_s: float, action: Callable[[], None]) -> None:
        self._simulation = simulation
        self._delay_s = delay_s
        self._action = action
        self._is_cancelled = False

    def cancel(self) -> None:
        self._is_cancelled = True

    def run(self) -> None:
        cancelled = self._simulation.block(lambda: self._is_cancelled, self._delay_s)
        if not cancelled:
            self._action()
