"""A transaction of the caller's, entered from an event loop. See designs 0043 and 0081."""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Concatenate, ParamSpec, TypeVar

from strandline.log.off_loop import BoundThread, bound_thread, in_thread

P = ParamSpec("P")
T = TypeVar("T")


class AsyncTransaction:
    """`Log.transaction` for `async with`: all calls of the block run in one separate thread.

    Appends and calls are part of it from entering to leaving, if they are made by the task
    that entered it or by tasks started inside. A cancelled block is rolled back.
    """

    def __init__(self, begin: Callable[[], AbstractContextManager[Any]]) -> None:
        self._begin = begin
        self._around: BoundThread | None = None
        self._executor: Executor | None = None
        self._is_own = False
        self._block: AbstractContextManager[Any] | None = None
        self.is_open: bool = False

    @property
    def executor(self) -> Executor | None:
        """The thread of the block; None before and after it."""
        return self._executor if self.is_open else None

    async def __aenter__(self) -> "AsyncConnection":
        self._around = around = bound_thread.get()
        # A block inside the block of another log runs in the same thread, as in blocking code.
        shared = None if around is None else around.executor
        self._is_own = shared is None
        self._executor = shared or ThreadPoolExecutor(1, "strandline-transaction")
        bound_thread.set(self)
        self.is_open = True
        try:
            connection = await in_thread(self._enter)
        except BaseException as error:
            # The thread may still enter after the task was cancelled: leave after that.
            self._executor.submit(self._leave, error)
            self._end()
            raise
        return AsyncConnection(self, connection)

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        assert self._executor is not None
        # Not cancellable: the transaction is committed or rolled back in any case.
        left = self._executor.submit(self._leave, error)
        try:
            await asyncio.shield(asyncio.wrap_future(left))
        finally:
            self._end()

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make a call in the thread of the block, from any task."""
        around = bound_thread.get()
        bound_thread.set(self)
        try:
            return await in_thread(call, *args, **kwargs)
        finally:
            bound_thread.set(around)

    def __repr__(self) -> str:
        return f"AsyncTransaction({'open' if self.is_open else 'not open'})"

    def _end(self) -> None:
        self.is_open = False
        bound_thread.set(self._around)
        if self._is_own and isinstance(self._executor, ThreadPoolExecutor):
            self._executor.shutdown(wait=False)

    # --- in the thread ---

    def _enter(self) -> Any:
        block = self._begin()
        connection = block.__enter__()
        self._block = block
        return connection

    def _leave(self, error: BaseException | None) -> None:
        block, self._block = self._block, None
        if block is not None:
            kind = None if error is None else type(error)
            block.__exit__(kind, error, None if error is None else error.__traceback__)


class AsyncConnection:
    """The connection of a transaction, with calls to be awaited."""

    def __init__(self, transaction: AsyncTransaction, blocking: Any) -> None:
        self._transaction = transaction
        self._blocking = blocking

    @property
    def blocking(self) -> Any:
        """The blocking connection; only functions passed to `run` may use it."""
        return self._blocking

    async def execute(self, sql: str, parameters: Any = (), /) -> "AsyncCursor":
        """Execute a statement."""
        return AsyncCursor(self, await self.run(_execute, sql, parameters))

    async def executemany(self, sql: str, parameters: Iterable[Any], /) -> "AsyncCursor":
        """Execute a statement for each of the parameters."""
        return AsyncCursor(self, await self.run(_execute_many, sql, parameters))

    async def run(
        self,
        function: Callable[Concatenate[Any, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return `function(connection, …)`, called in the thread of the block.

        Appends that the function makes with the blocking log are part of the transaction too.
        """
        return await self._transaction.run(function, self._blocking, *args, **kwargs)

    def __repr__(self) -> str:
        return f"AsyncConnection({self._blocking!r})"


class AsyncCursor:
    """The result of a statement."""

    def __init__(self, connection: AsyncConnection, blocking: Any) -> None:
        self._connection = connection
        self._blocking = blocking

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""
        return int(self._blocking.rowcount)

    @property
    def lastrowid(self) -> int | None:
        """The rowid of the row inserted last, in SQLite."""
        number: int | None = self._blocking.lastrowid
        return number

    async def fetchone(self) -> Any:
        """Return the next row; None after the last."""
        return await self._connection.run(lambda _: self._blocking.fetchone())

    async def fetchall(self) -> list[Any]:
        """Return the remaining rows."""
        rows: list[Any] = await self._connection.run(lambda _: self._blocking.fetchall())
        return rows

    def __repr__(self) -> str:
        return f"AsyncCursor({self._blocking!r})"


def _execute(connection: Any, sql: str, parameters: Any) -> Any:
    return connection.execute(sql, parameters)


def _execute_many(connection: Any, sql: str, parameters: Iterable[Any]) -> Any:
    cursor = connection.cursor()
    cursor.executemany(sql, parameters)
    return cursor
