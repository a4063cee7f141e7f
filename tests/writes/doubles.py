"""A small keyed store to put under a coordinator: real work, with gates and planned faults."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from strandline.clock import Clock, SystemClock
from strandline.values import UnavailableError
from strandline.writes import (
    Channel,
    Coordinator,
    Settings,
    Subscriber,
    WriteView,
)

#: How long a test waits for another thread before it calls that a bug.
PATIENCE_S = 10.0

T = TypeVar("T")


class Put(NamedTuple):
    """Set `key` to `value`. A negative value is refused."""

    key: str
    value: int
    size: int = 1


class Row(NamedTuple):
    """A stored value, with the place of its write among all of the store."""

    key: str
    sequence: int
    value: int


class FlushEvent(NamedTuple):
    """One flush: what was in it, and its epochs."""

    rows: tuple[Row, ...]
    epochs: range


class Step:
    """One call that the coordinator makes: counted, holdable, able to fail as planned."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        #: The threads that a planned fault was raised in.
        self.failed_in: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._is_held = False
        self._inside = 0
        self._faults: deque[BaseException | None] = deque()

    @property
    def calls(self) -> int:
        return len(self.threads)

    def hold(self) -> None:
        """Hold every call from now on inside the step."""
        self._is_held = True

    def release(self) -> None:
        with self._changed:
            self._is_held = False
            self._changed.notify_all()

    def wait_held(self, count: int = 1) -> None:
        """Return once `count` calls are held inside."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._inside >= count, PATIENCE_S), (
                "no thread came"
            )

    def wait_calls(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.calls >= count, PATIENCE_S), "too few calls"

    def fail_next(self, error: BaseException, *, after: int = 0) -> None:
        """Raise `error` in the next call, or `after` that many calls have gone well."""
        self._faults.extend([None] * after)
        self._faults.append(error)

    def take(self) -> None:
        """Be the step."""
        with self._changed:
            self.threads.append(threading.current_thread())
            self._inside += 1
            self._changed.notify_all()
            passed = self._changed.wait_for(lambda: not self._is_held, PATIENCE_S)
            self._inside -= 1
            assert passed, "the gate was never opened"
        fault = self._faults.popleft() if self._faults else None
        if fault is not None:
            self.failed_in.append(threading.current_thread())
            raise fault


@dataclass(frozen=True)
class Steps:
    """Every call that a coordinator makes into its store."""

    apply: Step
    size: Step
    freeze: Step
    reader: Step
    flush: Step
    sync: Step
    enter: Step
    leave: Step

    def release(self) -> None:
        for field in fields(self):
            getattr(self, field.name).release()


def new_steps() -> Steps:
    return Steps(*(Step() for _ in fields(Steps)))


@dataclass
class Context:
    """What outlives a delta: the next sequence number."""

    next_sequence: int = 0


class KeyedDelta:
    """The last value of each key, and the sequence numbers that its writes were given."""

    def __init__(self, context: Context, steps: Steps) -> None:
        self._context = context
        self._steps = steps
        self._rows: dict[str, Row] = {}
        self._bytes = 0

    def apply(self, write: Put) -> int:
        self._steps.apply.take()
        if write.value < 0:
            raise ValueError("apply error")
        sequence = self._context.next_sequence
        self._context.next_sequence += 1
        self._rows[write.key] = Row(write.key, sequence, write.value)
        self._bytes += write.size
        return sequence

    def size(self) -> int:
        self._steps.size.take()
        return self._bytes

    def freeze(self) -> tuple[tuple[Row, ...], Context]:
        self._steps.freeze.take()
        return tuple(self._rows.values()), self._context

    def reader(self) -> Mapping[str, int]:
        self._steps.reader.take()
        return {row.key: row.value for row in self._rows.values()}


class KeyedFlusher:
    """Keeps every flush, and how much of it has been synced."""

    def __init__(self, steps: Steps) -> None:
        self.rows: list[Row] = []
        self.events: list[FlushEvent] = []
        self.synced = 0
        self._steps = steps

    def flush(self, frozen: tuple[Row, ...], epochs: range) -> tuple[Row, ...]:
        self._steps.flush.take()
        self.rows.extend(frozen)
        self.events.append(FlushEvent(frozen, epochs))
        return tuple(self.rows)

    def sync(self) -> None:
        reached = len(self.rows)
        self._steps.sync.take()
        self.synced = reached


Frozen: TypeAlias = tuple[Row, ...]
KeyedCoordinator: TypeAlias = Coordinator[Put, int, Frozen, Mapping[str, int], Frozen, Context]
KeyedChannel: TypeAlias = Channel[Put, int]
KeyedView: TypeAlias = WriteView[Mapping[str, int], Frozen, Frozen]
KeyedSubscriber: TypeAlias = Subscriber[Mapping[str, int], Frozen, Frozen]


class Store:
    """A keyed store with its coordinator, not started yet."""

    def __init__(
        self,
        *channels: str,
        settings: Settings | None = None,
        clock: Clock | None = None,
        shared: SharedRows | None = None,
        gathers: bool = False,
    ) -> None:
        self.clock: Clock = SystemClock() if clock is None else clock
        self.steps = new_steps()
        self.flusher = KeyedFlusher(self.steps) if shared is None else SharedFlusher(self, shared)
        self.bracket = None if shared is None else SharedBracket(self, shared)
        self.coordinator: KeyedCoordinator = Coordinator(
            settings or Settings(),
            channels or ("main",),
            context=Context(),
            snapshot=(),
            delta=lambda context: KeyedDelta(context, self.steps),
            flusher=self.flusher,
            bracket=self.bracket,
            gathers=gathers,
            clock=self.clock,
        )
        self.channel: KeyedChannel = self.coordinator.channel(next(iter(channels or ("main",))))

    @property
    def events(self) -> list[FlushEvent]:
        return self.flusher.events

    @property
    def rows(self) -> list[Row]:
        return self.flusher.rows


class SharedRows:
    """What several coordinators write to under one lock: rows with dense offsets."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._changed = threading.Lock()
        self._is_held = False
        self._waiting: list[threading.Event] = []

    @property
    def next_offset(self) -> int:
        return len(self.rows)

    def lock(self, clock: Clock, timeout_s: float) -> bool:
        """Take the lock within `timeout_s` of `clock`; False when it cannot be had."""
        freed = threading.Event()
        deadline = clock.monotonic() + timeout_s
        self._waiting.append(freed)
        try:
            while not self._try_lock():
                if not clock.wait(freed, deadline - clock.monotonic()):
                    return False
                freed.clear()
            return True
        finally:
            self._waiting.remove(freed)

    def unlock(self) -> None:
        assert self._is_held
        self._is_held = False
        for freed in tuple(self._waiting):
            freed.set()

    def _try_lock(self) -> bool:
        with self._changed:
            if self._is_held:
                return False
            self._is_held = True
            return True


class SharedBracket:
    """One coordinator's way into the shared rows."""

    def __init__(self, store: Store, shared: SharedRows) -> None:
        self.timeouts: list[float] = []
        self.caught_up: list[int] = []
        self._store = store
        self._shared = shared

    def enter(self, timeout_s: float, *, may_wait: bool = True) -> Context:
        assert may_wait or timeout_s == 0
        self.timeouts.append(timeout_s)
        self._store.steps.enter.take()
        if not self._shared.lock(self._store.clock, timeout_s):
            raise UnavailableError("the store is locked elsewhere", timeout_s=timeout_s)
        self.caught_up.append(self._shared.next_offset)
        return Context(self._shared.next_offset)

    def leave(self) -> None:
        # Whatever the fault, the lock of a store that is left does not stay behind.
        self._shared.unlock()
        self._store.steps.leave.take()


class SharedFlusher(KeyedFlusher):
    """Puts rows after those of the others, and insists that none is skipped."""

    def __init__(self, store: Store, shared: SharedRows) -> None:
        super().__init__(store.steps)
        self._shared = shared

    def flush(self, frozen: tuple[Row, ...], epochs: range) -> tuple[Row, ...]:
        super().flush(frozen, epochs)
        offsets = [row.sequence for row in frozen]
        start = self._shared.next_offset
        assert offsets == list(range(start, start + len(frozen))), "an offset was given twice"
        self._shared.rows.extend(frozen)
        return tuple(self._shared.rows)


class Call(Generic[T]):
    """A call running in a separate thread."""

    def __init__(self, action: Callable[[], T]) -> None:
        self._action = action
        self._results: list[T] = []
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._results.append(self._action())
        except BaseException as exc:  # noqa: BLE001 - It is raised in the thread that asks.
            self._error = exc

    @property
    def is_done(self) -> bool:
        return not self.thread.is_alive()

    def result(self) -> T:
        """Return or raise what the call did; a call that does not end is an AssertionError."""
        self.thread.join(PATIENCE_S)
        assert self.is_done, "the call did not end"
        if self._error is not None:
            raise self._error
        return self._results[0]

    def error(self) -> BaseException:
        """Return what the call raised."""
        self.thread.join(PATIENCE_S)
        assert self.is_done, "the call did not end"
        assert self._error is not None, "the call raised nothing"
        return self._error
