"""Acquires and releases locks so that no interrupt leaves one locked.

CPython runs signal handlers, and so raises KeyboardInterrupt, only at some bytecodes: where
a Python function or generator begins or resumes, after a call of C code, and at a jump
backwards. The code between two such bytecodes is atomic. Design 0070 has the details and the
rules for code that uses this module.
"""

import functools
import io
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Acquirable(Protocol):
    """The type of `threading.Lock()` and `threading.RLock()`."""

    def acquire(self, blocking: bool = ..., timeout: float = ..., /) -> bool:
        """Acquire the lock, or return False."""


class Attempt:
    """An attempt to acquire a lock: evaluating its truth value acquires the lock, if possible.

    `if attempt:` followed at once by `try:` and `finally: lock.release()` is safe, where
    `if lock.acquire(False):` is not: an interrupt may come after the call that has acquired
    the lock, but not after a test of a truth value. An attempt may be reused.
    """

    # A slot, so that Python's truth test calls only C code.
    __slots__ = ("__bool__",)

    def __init__(self, lock: Acquirable, timeout_s: float | None = 0.0) -> None:
        """Wait up to `timeout_s` for the lock; None waits for ever."""
        acquire: Callable[[], bool] = functools.partial(lock.acquire, False)
        if timeout_s is None:
            acquire = functools.partial(lock.acquire, True)
        elif timeout_s > 0:
            acquire = functools.partial(lock.acquire, True, timeout_s)
        self.__bool__: Final = acquire


class _Closing(io.IOBase):
    """Calls its attribute `close` when a block is left: in C, unlike an `__exit__` in Python."""

    def __init__(self, close: Callable[[], None]) -> None:
        self.close = close  # type: ignore[method-assign]


class _Holding:
    """A generator as a context manager, without a Python function that calls it."""

    __slots__ = ("__enter__", "__exit__")

    def __init__(self, generator: Generator[Any, None, None]) -> None:
        self.__enter__ = generator.__next__
        self.__exit__ = _Closing(generator.close).__exit__


def holding(function: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T]]:
    """Make a context manager of a generator function that acquires, yields, and releases.

    Unlike `contextlib.contextmanager`, it also releases if an interrupt comes just as the
    block is entered or left. The generator cannot see how its block ended: `yield` raises
    GeneratorExit in any case, so release in a `finally`.
    """

    @functools.wraps(function)
    def held(*args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[T]:
        return _Holding(function(*args, **kwargs))  # type: ignore[arg-type]

    return held


class Signal:
    """An event for a single waiter: it needs a lock, and no condition."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Wake the waiter. From any thread."""
        try:  # noqa: SIM105 - A context manager costs more than all the rest.
            self._lock.release()
        except RuntimeError:
            pass  # Another thread has set it already.

    def is_set(self) -> bool:
        """Whether a wait would return at once."""
        return not self._lock.locked()

    def clear(self) -> None:
        """Make the next wait block."""
        self._lock.acquire(False)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until set; False when the time is up first. Goes through the clock."""
        if not Attempt(self._lock, timeout_s):
            return False
        # Not by `set`: an interrupt at its beginning would lose the signal.
        try:  # noqa: SIM105 - A context is a call, too.
            self._lock.release()
        except RuntimeError:
            pass  # Set again meanwhile.
        return True


class Latch(Signal):
    """A signal that stays set, for any number of waiters.

    Like `threading.Event`, which an interrupt may leave locked for ever if it comes while
    the event is set or awaited.
    """

    __slots__ = ("_is_set",)

    def __init__(self) -> None:
        super().__init__()
        self._is_set = False

    def set(self) -> None:
        self._is_set = True
        super().set()

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout_s: float | None = None) -> bool:
        return self._is_set or super().wait(timeout_s) or self._is_set


def start_thread(thread: threading.Thread) -> None:
    """Start a thread; an interrupt meanwhile is raised unchanged.

    `Thread.start` waits on a `Condition`, which raises a RuntimeError instead of an interrupt
    that comes while it acquires its lock again.
    """
    try:
        thread.start()
    except RuntimeError as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise
