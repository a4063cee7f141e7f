"""An application with its own table in the log's database, in each way to reach it."""

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

import django
import psycopg
import sqlalchemy
from django.conf import UserSettingsHolder, global_settings, settings
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import NullPool

from tests.stores.postgres.server import PostgresServer


class Shop(Protocol):
    """One way to write rows."""

    def passed(self) -> contextlib.AbstractContextManager[Any]:
        """Return what is passed to `log.transaction`."""

    def add(self, given: Any, name: str) -> None:
        """Write a row."""

    def savepoint(self, given: Any) -> contextlib.AbstractContextManager[Any]:
        """Begin a savepoint, which is rolled back when the block raises."""


class PsycopgShop:
    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    @contextlib.contextmanager
    def passed(self) -> Iterator[Any]:
        # With rows that are no tuples, and statements that are put together here.
        with psycopg.connect(
            self._server.url(), row_factory=dict_row, cursor_factory=psycopg.ClientCursor
        ) as connection:
            yield connection

    def add(self, given: Any, name: str) -> None:
        given.execute("INSERT INTO orders (name) VALUES (%s)", (name,))

    def savepoint(self, given: Any) -> contextlib.AbstractContextManager[Any]:
        block: contextlib.AbstractContextManager[Any] = given.transaction()
        return block


class OwnShop(PsycopgShop):
    @contextlib.contextmanager
    def passed(self) -> Iterator[Any]:
        yield None


class PoolShop(PsycopgShop):
    @contextlib.contextmanager
    def passed(self) -> Iterator[Any]:
        with ConnectionPool(self._server.url(), min_size=1, max_size=2, open=True) as pool:
            yield pool


class Tables(DeclarativeBase):
    """The application's tables."""


class Order(Tables):
    __tablename__ = "orders"
    name: Mapped[str] = mapped_column(primary_key=True)


def engine_of(server: PostgresServer) -> sqlalchemy.Engine:
    """Return an engine for the server."""
    return sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(server.url()), poolclass=NullPool
    )


class SessionShop:
    def __init__(self, server: PostgresServer) -> None:
        self._engine = engine_of(server)

    @contextlib.contextmanager
    def passed(self) -> Iterator[Any]:
        with Session(self._engine) as session:
            yield session

    def add(self, given: Any, name: str) -> None:
        given.add(Order(name=name))

    def savepoint(self, given: Any) -> contextlib.AbstractContextManager[Any]:
        block: contextlib.AbstractContextManager[Any] = given.begin_nested()
        return block


class CoreShop(SessionShop):
    @contextlib.contextmanager
    def passed(self) -> Iterator[Any]:
        with self._engine.connect() as connection:
            yield connection

    def add(self, given: Any, name: str) -> None:
        given.execute(sqlalchemy.insert(Order).values(name=name))


class DjangoShop:
    """Has its own settings while it is used: other tests of the process have others."""

    def __init__(self, server: PostgresServer) -> None:
        place = {"NAME": "postgres", "USER": "lab", "HOST": str(server.folder)}
        self._settings = UserSettingsHolder(global_settings)
        self._settings.DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", **place}}

    @contextlib.contextmanager
    def passed(self) -> Iterator[Any]:
        from django.db import connection  # noqa: PLC0415 - Once it is configured.

        before, settings._wrapped = settings._wrapped, self._settings  # noqa: SLF001 - To put it back.
        django.setup()
        _forget_connections()
        try:
            yield connection
            connection.close()
        finally:
            settings._wrapped = before  # noqa: SLF001 - As above.
            _forget_connections()

    def add(self, given: Any, name: str) -> None:
        with given.cursor() as cursor:
            cursor.execute("INSERT INTO orders (name) VALUES (%s)", [name])

    def savepoint(self, given: Any) -> contextlib.AbstractContextManager[Any]:
        from django.db.transaction import atomic  # noqa: PLC0415 - Once it is configured.

        block: contextlib.AbstractContextManager[Any] = atomic(using=given.alias)
        return block


def _forget_connections() -> None:
    from django.db import connections  # noqa: PLC0415 - Once it is configured.

    vars(connections).pop("settings", None)
    connections._settings = None  # noqa: SLF001 - Read again from the settings.
    with contextlib.suppress(AttributeError):
        del connections["default"]


SHOPS = (OwnShop, PsycopgShop, PoolShop, SessionShop, CoreShop, DjangoShop)
