"""A caller's transaction, with its rows and appends. See design 0043."""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, NoReturn, Self

from strandline.stores.block_end import BlockEnd
from strandline.stores.sqlite.partition_row import PartitionRow
from strandline.values import Durability, InvalidError, StrandlineError

_SAVEPOINT = "strandline_block"
_HAS_ENDED = "the transaction ended inside its block, repeat all of it"


#: Actions that change or replace a table, with the arguments that name it.
_CHANGES: Final = frozenset(
    {
        sqlite3.SQLITE_INSERT,
        sqlite3.SQLITE_UPDATE,
        sqlite3.SQLITE_DELETE,
        sqlite3.SQLITE_ALTER_TABLE,
        sqlite3.SQLITE_CREATE_TABLE,
        sqlite3.SQLITE_CREATE_TEMP_TABLE,
        sqlite3.SQLITE_CREATE_VIEW,
        sqlite3.SQLITE_CREATE_TEMP_VIEW,
        sqlite3.SQLITE_CREATE_VTABLE,
        sqlite3.SQLITE_CREATE_INDEX,
        sqlite3.SQLITE_CREATE_TRIGGER,
        sqlite3.SQLITE_CREATE_TEMP_TRIGGER,
        sqlite3.SQLITE_DROP_TABLE,
        sqlite3.SQLITE_DROP_VTABLE,
        sqlite3.SQLITE_DROP_INDEX,
        sqlite3.SQLITE_DROP_TRIGGER,
    }
)
_OURS: Final = "strandline_"


def is_ours(table: str) -> bool:
    """Whether a table is one of the log's."""
    return table.lower().startswith(_OURS)


def _not_yours(table: str) -> InvalidError:
    return InvalidError(
        "tables whose names begin with strandline_ belong to the log: append with log.append,"
        " and keep your own rows in other tables",
        table=table,
    )


def _ends_with_block(call: str) -> InvalidError:
    return InvalidError(
        "the transaction ends with its block: leave it to commit, raise to roll back", call=call
    )


class BlockCursor(sqlite3.Cursor):
    """A cursor that raises the reason why a statement was refused."""

    connection: "BlockConnection"

    def __repr__(self) -> str:
        return f"Cursor({self.connection!r})"

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        with self.connection.explaining():
            return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> Self:
        with self.connection.explaining():
            return super().executemany(sql, parameters)

    def executescript(self, sql_script: str, /) -> sqlite3.Cursor:
        self.connection.check("executescript")
        return super().executescript(sql_script)


class BlockConnection(sqlite3.Connection):
    """A connection to the log's file for the length of a block.

    While `is_lent`, it refuses anything that would end the block's transaction other than
    leaving the block, and anything that would change the log's own tables. The caller may
    use savepoints.
    """

    is_lent: bool = False
    is_ours = False
    """Whether the next statements are the log's own."""
    _pid = 0
    _refused: InvalidError | None = None
    _before_append: tuple[Callable[[], object], ...] = ()

    def before_append(self, call: Callable[[], object]) -> None:
        """Register `call` to be called before each append of the block.

        For a library that begins its savepoints late: `call` makes it begin the savepoint
        that the append belongs to.
        """
        self._before_append = (*self._before_append, call)

    def prepare_append(self) -> None:
        """Call what was registered with `before_append`."""
        calls, self._before_append = self._before_append, ()
        try:
            for call in calls:
                call()
        finally:
            self._before_append = (*calls, *self._before_append)

    def __repr__(self) -> str:
        return "Connection(inside log.transaction())" if self.is_lent else "Connection(closed)"

    def cursor(self, factory: Any = None) -> Any:
        return super().cursor(factory or BlockCursor)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        with self.explaining():
            return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        with self.explaining():
            return super().executemany(sql, parameters)

    @contextlib.contextmanager
    def explaining(self) -> Iterator[None]:
        """Raise the reason why a statement was refused."""
        self._check_going_on()
        self._refused = None
        try:
            yield
        except sqlite3.DatabaseError as error:
            if self._refused is None:
                raise
            raise self._refused from error

    def lend(self) -> None:
        """Start checking the caller's statements."""
        self._pid = os.getpid()
        self.set_authorizer(self._authorize)
        self.is_lent = True

    def take_back(self) -> None:
        """Stop checking: the following statements are the log's own."""
        self.is_lent = False
        self.set_authorizer(None)

    def commit(self) -> None:
        self.check("commit")
        super().commit()

    def rollback(self) -> None:
        self.check("rollback")
        super().rollback()

    def close(self) -> None:
        self.check("close")
        super().close()

    def executescript(self, sql_script: str, /) -> sqlite3.Cursor:
        self.check("executescript")
        return super().executescript(sql_script)

    def deserialize(self, *data: Any, **options: Any) -> None:
        self._check_whole("deserialize")
        super().deserialize(*data, **options)

    def set_authorizer(self, authorizer_callback: Any) -> None:
        self._check_whole("set_authorizer")
        super().set_authorizer(authorizer_callback)

    def blobopen(self, table: str, *place: Any, **options: Any) -> sqlite3.Blob:
        if self.is_lent and not options.get("readonly") and is_ours(table):
            raise _not_yours(table)
        self._check_going_on()
        return super().blobopen(table, *place, **options)

    def __enter__(self) -> Self:
        self.check("with")
        return super().__enter__()

    def check(self, call: str) -> None:
        """Raise InvalidError for a call that would end the block's transaction."""
        if self.is_lent:
            raise _ends_with_block(call)

    def _check_going_on(self) -> None:
        """Raise InvalidError for a statement that would be committed by itself."""
        if self.is_lent and not self.in_transaction:
            # A conflict rolled it back: OR ROLLBACK, or RAISE(ROLLBACK) of a trigger.
            raise InvalidError(_HAS_ENDED)

    def _check_whole(self, call: str) -> None:
        if self.is_lent:
            raise InvalidError(
                "this call could change more than your own rows, use a connection of your own",
                call=call,
            )

    def _authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        # Called when a statement is prepared, so it costs nothing for a cached one.
        if os.getpid() != self._pid:
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_TRANSACTION:
            self._refused = _ends_with_block(first or "")
            return sqlite3.SQLITE_DENY
        if self.is_ours:
            return sqlite3.SQLITE_OK
        if action in _CHANGES:
            for name in (first, second):
                if name is not None and is_ours(name):
                    self._refused = _not_yours(name)
                    return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() == "writable_schema":
            self._refused = _not_yours("sqlite_schema")
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK


class Stored(NamedTuple):
    """A stored row of an append, with its checksum; no checksum for a repeat whose row is gone."""

    place: int
    crc: int | None


class Joined:
    """An append inside a block: its rows, and its outcome."""

    __slots__ = ("block", "error", "rows")

    def __init__(self, block: "TransactionBlock", rows: list[Stored]) -> None:
        self.block: Final = block
        self.rows: Final = rows
        #: Why nothing of it is stored, if that is known.
        self.error: StrandlineError | None = None


class TransactionBlock:
    """The state of a transaction from its begin to its end."""

    def __init__(self, connection: sqlite3.Connection, *, is_outside: bool) -> None:
        self.connection = connection
        self.is_outside = is_outside
        self.over: Final = BlockEnd()
        self.level = Durability.WRITTEN
        self.joined: list[Joined] = []
        #: The slots appended to, and after the commit their ends.
        self.ends: dict[int, int] = {}
        #: The partitions' rows after the commit; None until the commit is tried.
        self.heads: dict[int, PartitionRow] | None = None
        #: The size of the write-ahead log at its beginning.
        self.wal_bytes = 0
        #: What makes a commit impossible.
        self.failure: BaseException | None = None

    def prepare_append(self) -> None:
        """Let the caller's library begin the savepoint that an append belongs to."""
        if isinstance(self.connection, BlockConnection):
            self.connection.prepare_append()

    def begin(self) -> None:
        """Hand the connection, with a transaction begun, to the caller."""
        if isinstance(self.connection, BlockConnection):
            self.connection.lend()
        else:
            # The savepoint vanishes if the caller ends our transaction and begins another.
            self.connection.execute(f"SAVEPOINT {_SAVEPOINT}")

    def check(self) -> None:
        """Raise whatever makes it impossible to continue."""
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        try:
            is_going_on = self.connection.in_transaction
        except sqlite3.ProgrammingError as error:
            self._fail("the connection was closed inside its transaction", error)
        if not is_going_on:
            self._fail(_HAS_ENDED)

    def end(self) -> None:
        """Take the connection back for the commit; our own statements may follow."""
        if isinstance(self.connection, BlockConnection):
            self.connection.take_back()
            return
        try:
            self.connection.execute(f"RELEASE {_SAVEPOINT}")
        except sqlite3.OperationalError as error:
            self._fail("the caller ended this transaction inside its block and began one", error)

    def drop(self) -> None:
        """Roll back what is not committed, whatever state the connection is in."""
        if isinstance(self.connection, BlockConnection):
            self.connection.take_back()
        # A closed connection has nothing to roll back.
        with contextlib.suppress(sqlite3.ProgrammingError):
            self.connection.rollback()

    @contextlib.contextmanager
    def plain(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection for the log's own statements, without the caller's row settings."""
        connection = self.connection
        kept: tuple[Any, Any] = connection.row_factory, connection.text_factory
        connection.row_factory, connection.text_factory = None, str
        if isinstance(connection, BlockConnection):
            connection.is_ours = True
        try:
            yield connection
        finally:
            connection.row_factory, connection.text_factory = kept
            if isinstance(connection, BlockConnection):
                connection.is_ours = False

    def _fail(self, text: str, cause: BaseException | None = None) -> NoReturn:
        self.failure = InvalidError(text)
        self.failure.__cause__ = cause
        raise self.failure
