"""One interface for the caller's connections, pools, sessions, and Django's. See design 0097."""

import sys
from typing import Any, Protocol, cast

import psycopg
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from strandline.stores.postgres.database import Connection, PostgresDatabase
from strandline.values import InvalidError, StrandlineError


class CallersTransaction(Protocol):
    """A transaction that begins and ends with a block."""

    #: The object that the block gives to the caller.
    given: Any

    def begin(self) -> None:
        """Begin it; InvalidError if one has begun already."""

    def connection(self) -> Connection:
        """Return the connection, inside the savepoint, if any, that the next append belongs to.

        InvalidError once the transaction has ended.
        """

    def flush(self) -> None:
        """Execute statements that the caller's library has deferred."""

    def leave(self, error: BaseException | None) -> None:
        """Commit it, or roll it back because of an error."""


def callers_transaction(outside: Any, database: PostgresDatabase) -> CallersTransaction:
    """Return the transaction of the caller's object; InvalidError for an unknown type."""
    if outside is None:
        return PooledTransaction(database.take, database.give_back)
    if isinstance(outside, psycopg.Connection):
        return PsycopgTransaction(outside)
    if isinstance(outside, ConnectionPool):
        return PooledTransaction(outside.getconn, outside.putconn)
    if _is(outside, "sqlalchemy.orm", "scoped_session"):
        return AlchemyTransaction(outside())
    if _is(outside, "sqlalchemy.orm", "Session") or _is(outside, "sqlalchemy", "Connection"):
        return AlchemyTransaction(outside)
    if getattr(outside, "vendor", None) == "postgresql" and hasattr(outside, "in_atomic_block"):
        return DjangoTransaction(outside)
    raise InvalidError(
        "pass a blocking psycopg connection or pool, a SQLAlchemy session or connection, or"
        " Django's connection",
        type=type(outside).__qualname__,
    )


def _is(value: object, module: str, name: str) -> bool:
    """Whether a value is of a library's class, without importing the library."""
    found = sys.modules.get(module)
    return found is not None and isinstance(value, getattr(found, name))


class BlockTransaction:
    """Common code for libraries that have a block for a transaction."""

    def __init__(self, given: Any) -> None:
        self.given = given
        self._block: Any = None
        self._has_begun = False

    def flush(self) -> None:
        """Nothing is deferred."""

    def leave(self, error: BaseException | None) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(None if error is None else type(error), error, None)

    def _enter(self, block: Any) -> None:
        block.__enter__()
        self._block = block


class PsycopgTransaction(BlockTransaction):
    """Implements CallersTransaction for a connection of psycopg."""

    def begin(self) -> None:
        if self.given.closed:
            raise InvalidError("this connection is closed, connect again")
        if self.given.info.transaction_status != TransactionStatus.IDLE:
            raise begun()
        self._enter(self.given.transaction())

    def connection(self) -> Connection:
        return check_going_on(self.given)


class PooledTransaction:
    """Implements CallersTransaction for a pool, whose connection it holds during the block."""

    given: Any = None

    def __init__(self, take: Any, give_back: Any) -> None:
        self._take = take
        self._give_back = give_back
        self._inner: PsycopgTransaction | None = None

    def begin(self) -> None:
        connection = self._take()
        self._inner, self.given = PsycopgTransaction(connection), connection
        self._inner.begin()

    def connection(self) -> Connection:
        assert self._inner is not None
        return self._inner.connection()

    def flush(self) -> None:
        """Nothing is deferred."""

    def leave(self, error: BaseException | None) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            try:
                inner.leave(error)
            finally:
                self._give_back(inner.given)


class AlchemyTransaction(BlockTransaction):
    """Implements CallersTransaction for a session or a connection of SQLAlchemy."""

    def begin(self) -> None:
        if self.given.in_transaction():
            raise begun()
        self._enter(self.given.begin())
        self.connection()
        self._has_begun = True

    def connection(self) -> Connection:
        if self._block is None or not self._block.is_active:
            raise ended()
        # On a session, this call begins the savepoint of its current unit of work.
        joined = self.given.connection
        pooled = joined().connection if callable(joined) else joined
        driver = pooled.driver_connection
        if not isinstance(driver, psycopg.Connection):
            raise InvalidError(
                "the engine has another driver, make it with postgresql+psycopg://",
                driver=type(driver).__module__,
            )
        return check_going_on(driver) if self._has_begun else begin_now(driver)

    def flush(self) -> None:
        if hasattr(self.given, "flush"):
            self.given.flush()


class DjangoTransaction(BlockTransaction):
    """Implements CallersTransaction for a connection of Django."""

    def begin(self) -> None:
        if self.given.in_atomic_block:
            raise InvalidError(
                "this connection is inside atomic() already: make log.transaction the outermost"
                " block, and use TransactionTestCase in tests"
            )
        self._enter(sys.modules["django.db.transaction"].atomic(using=self.given.alias))
        self.connection()
        self._has_begun = True

    def connection(self) -> Connection:
        self.given.ensure_connection()
        driver = self.given.connection
        if not isinstance(driver, psycopg.Connection):
            raise InvalidError(
                "Django uses another driver, install psycopg 3", driver=type(driver).__module__
            )
        if self.given.needs_rollback:
            raise failed()
        return check_going_on(driver) if self._has_begun else begin_now(driver)


def begin_now(connection: Any) -> Connection:
    """Begin the transaction now, although the library would wait for its first statement."""
    connection.execute("SELECT 1")
    if connection.info.transaction_status == TransactionStatus.IDLE:
        raise InvalidError("this connection commits each statement, use one without autocommit")
    return check_going_on(connection)


def check_going_on(connection: Any) -> Connection:
    """Return a connection that is inside a transaction; InvalidError if it is not, or failed."""
    status = connection.info.transaction_status
    if status == TransactionStatus.INERROR:
        raise failed()
    if status == TransactionStatus.IDLE:
        raise ended()
    return cast("Connection", connection)


def begun() -> StrandlineError:
    """Return the error for a transaction that was begun before the block."""
    return InvalidError("this connection is inside a transaction already, end that first")


def ended() -> StrandlineError:
    """Return the error for a transaction that was ended inside the block."""
    return InvalidError("the transaction ended inside its block, repeat all of it")


def failed() -> StrandlineError:
    """Return the error for a transaction that can only be rolled back."""
    return InvalidError(
        "a statement of this transaction has failed, use a savepoint around what may fail"
    )
