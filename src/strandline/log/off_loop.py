"""How async faces make calls that may block: in a thread, never on the loop. See design 0081."""

import asyncio
import functools
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Executor
from contextvars import ContextVar, copy_context
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar

from strandline.locks import Latch
from strandline.writes.loops import check_on_asyncio

PAGE_ITEMS: Final = 128
"""How many items one call on a thread takes from an iterator."""

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
BlockingT = TypeVar("BlockingT")
BlockingT_co = TypeVar("BlockingT_co", covariant=True)
ItemT = TypeVar("ItemT")
CallT = TypeVar("CallT", bound=Callable[..., Any])
FaceT = TypeVar("FaceT", bound="Closing")


class Face(Protocol[BlockingT_co]):
    """An object for event loops, over the blocking one that does the work."""

    @property
    def blocking(self) -> BlockingT_co:
        """The same object for threads."""


class AsyncFace(Generic[BlockingT_co]):
    """Implements Face: what all objects for event loops have in common."""

    def __init__(self, blocking: BlockingT_co) -> None:
        self._blocking = blocking

    @property
    def blocking(self) -> BlockingT_co:
        """The same object for threads."""
        return self._blocking

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._blocking!r})"


class Closing(Protocol):
    """An object that has to be closed."""

    async def close(self) -> None:
        """Close it."""


class BoundThread(Protocol):
    """The one thread in which a task's calls must run, because it is inside a transaction."""

    @property
    def is_open(self) -> bool:
        """Whether the transaction is neither committed nor rolled back."""

    @property
    def executor(self) -> Executor | None:
        """That thread; None once any thread will do."""


bound_thread: ContextVar[BoundThread | None] = ContextVar("strandline_thread", default=None)
"""The thread of the transaction that the current task is inside of."""


def start_in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
    """Start a call that may block, in the loop's executor or the transaction's thread."""
    check_on_asyncio()
    bound = bound_thread.get()
    ready = functools.partial(copy_context().run, call, *args, **kwargs)
    executor = None if bound is None else bound.executor
    return asyncio.get_running_loop().run_in_executor(executor, ready)


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of a call that may block.

    If cancelled before its thread starts, the call is not made. If cancelled later, it runs to
    its end, and its result is dropped.
    """
    return await start_in_thread(call, *args, **kwargs)


class CallsInTurn:
    """Calls in threads, one step after another, for one caller.

    A cancelled step may leave its call running. The next step starts when that has ended.
    """

    def __init__(self) -> None:
        self._left: _Call[Any] | None = None

    async def make(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a call that may block. As `in_thread`."""
        made = _Call(functools.partial(call, *args, **kwargs))
        try:
            return await in_thread(made.run)
        except asyncio.CancelledError:
            if not made.take_back():
                self._left = made
            raise

    async def settle(self) -> None:
        """Wait until the call of a cancelled step has ended."""
        if (left := self._left) is not None:
            await in_thread(left.wait)
            self._left = None

    def settle_here(self) -> None:
        """Do the same, blocking the current thread."""
        if (left := self._left) is not None:
            left.wait()
            self._left = None


class _Call(Generic[T_co]):
    """A call that runs in its thread, unless it is withdrawn before it starts."""

    def __init__(self, call: Callable[[], T_co]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._is_begun = False
        self._is_taken_back = False
        self._ended = Latch()

    def run(self) -> T_co:
        with self._lock:
            if self._is_taken_back:
                raise asyncio.CancelledError
            self._is_begun = True
        try:
            return self._call()
        finally:
            self._ended.set()

    def take_back(self) -> bool:
        """Withdraw the call; False if it has started."""
        with self._lock:
            self._is_taken_back = not self._is_begun
            return self._is_taken_back

    def wait(self) -> None:
        self._ended.wait()


async def to_its_end(call: Callable[[], T]) -> T:
    """Return the call's result. The call always runs; cancelling ends only the wait."""
    return await asyncio.shield(start_in_thread(call))


def off_loop(
    method: Callable[Concatenate[BlockingT, P], T],
) -> Callable[Concatenate[Face[BlockingT], P], Coroutine[Any, Any, T]]:
    """Return the async face of a blocking method, with its name and its parameters."""
    name = method.__name__

    async def call(self: Face[BlockingT], /, *args: P.args, **kwargs: P.kwargs) -> T:
        # Looked up by name: a subclass of the blocking object may override it.
        return await in_thread(getattr(self.blocking, name), *args, **kwargs)

    return _named(call, method)


def closes(
    method: Callable[[BlockingT], None],
) -> Callable[[Face[BlockingT]], Coroutine[Any, Any, None]]:
    """Return the async face of a closing method; it closes even if its task is cancelled."""
    name = method.__name__

    async def call(self: Face[BlockingT], /) -> None:
        await to_its_end(getattr(self.blocking, name))

    return _named(call, method)


def in_pages(
    method: Callable[Concatenate[BlockingT, P], Iterator[T]],
) -> Callable[Concatenate[Face[BlockingT], P], AsyncIterator[T]]:
    """Return the async face of a method that returns an iterator, read a page at a time.

    An error that the method raises when called is raised with the first item.
    """
    name = method.__name__

    async def call(self: Face[BlockingT], /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        items: Iterator[T] = await in_thread(getattr(self.blocking, name), *args, **kwargs)
        async for item in each_of(items):
            yield item

    returns = str(method.__annotations__["return"]).replace("Iterator", "AsyncIterator")
    return _named(call, method, returns)


async def each_of(items: Iterator[T], items_max: int = PAGE_ITEMS) -> AsyncIterator[T]:
    """Yield the items of an iterator that may block."""
    while page := await in_thread(_page, items, items_max):
        for item in page:
            yield item


def _page(items: Iterator[T], items_max: int) -> list[T]:
    return list(itertools.islice(items, items_max))


def opens(
    method: Callable[Concatenate[BlockingT, P], T], face: Callable[[T], FaceT]
) -> Callable[Concatenate[Face[BlockingT], P], "Opening[FaceT]"]:
    """Return the async face of a method that opens an object to be closed."""
    name = method.__name__

    def call(self: Face[BlockingT], /, *args: P.args, **kwargs: P.kwargs) -> Opening[FaceT]:
        return Opening(functools.partial(getattr(self.blocking, name), *args, **kwargs), face)

    return _named(call, method, f"Opening[{getattr(face, '__name__', face)}]")


class Opening(Generic[T_co]):
    """An object to open: by awaiting it, with `async with`, or with `async for`.

    `async with` closes it at the end of the block, `async for` when it is exhausted. If opening
    is cancelled, its thread closes what it has opened.
    """

    def __init__(self, make: Callable[[], Any], face: Callable[[Any], T_co]) -> None:
        self._make = make
        self._face = face
        self._entered: list[T_co] = []

    def __await__(self) -> Generator[Any, None, T_co]:
        return self._open().__await__()

    async def __aenter__(self) -> T_co:
        face = await self._open()
        self._entered.append(face)
        return face

    async def __aexit__(self, *exc: object) -> None:
        face: Any = self._entered.pop()
        await face.close()

    async def __aiter__(self: "Opening[ClosingStream[ItemT]]") -> AsyncIterator[ItemT]:
        async with self as stream:
            async for item in stream:
                yield item

    def __repr__(self) -> str:
        return f"Opening({getattr(self._face, '__name__', self._face)}): await it, or async with it"

    async def _open(self) -> T_co:
        return self._face(await _Made(self._make).opened())


class ClosingStream(Closing, Protocol[T_co]):
    """A stream that has to be closed."""

    def __aiter__(self) -> AsyncIterator[T_co]:
        """Return an iterator over its items."""


class _Made:
    """What a thread opens; it is closed if no task waits for it any more."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._is_abandoned = False
        self._made: Any = None

    async def opened(self) -> Any:
        """Return what is opened."""
        try:
            return await in_thread(self._open)
        except asyncio.CancelledError:
            with self._lock:
                self._is_abandoned = True
                made = self._made
            if made is not None:
                start_in_thread(made.close)
            raise

    def _open(self) -> Any:
        made = self._make()
        with self._lock:
            self._made = made
            is_abandoned = self._is_abandoned
        if is_abandoned:
            made.close()
        return made


def _named(call: CallT, method: Callable[..., Any], returns: str | None = None) -> CallT:
    functools.update_wrapper(call, method)
    if returns is not None:
        call.__annotations__ = {**method.__annotations__, "return": returns}
    call.__doc__ = f"Do what `{method.__qualname__}` does, off the event loop."
    return call
