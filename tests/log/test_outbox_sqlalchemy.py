"""SQLAlchemy inside a transaction of the log, on the log's connection."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import StaticPool

from strandline.log import Log
from strandline.values import Event
from tests.log.shop import refused, rolled_back
from tests.logs import sqlite_log


class Tables(DeclarativeBase):
    pass


class Order(Tables):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    path = str(tmp_path / "shop.sqlite")
    engine = create_engine(f"sqlite:///{path}")
    Tables.metadata.create_all(engine)
    engine.dispose()
    with sqlite_log(path) as log:
        log.create_topic("orders")
        yield log


def session_on(connection: sqlite3.Connection) -> Session:
    """Return a session whose commits and rollbacks end a savepoint of its own, and no more."""
    engine = create_engine(
        "sqlite://",
        creator=lambda: connection,
        poolclass=StaticPool,
        pool_reset_on_return=None,
    )
    for ending in ("do_commit", "do_rollback"):
        setattr(engine.dialect, ending, lambda _: None)
    joined = engine.connect()
    joined.begin()
    return Session(joined, join_transaction_mode="create_savepoint")


def names(log: Log) -> list[str]:
    with log.transaction() as connection, session_on(connection) as session:
        return list(session.scalars(select(Order.name).order_by(Order.id)))


def test_a_session_and_the_log_are_committed_together(log: Log) -> None:
    with log.transaction() as connection, session_on(connection) as session:
        order = Order(name="tea")
        session.add(order)
        session.flush()
        log.append("orders", Event("order.created", {"id": order.id}))
        session.commit()
        assert session.scalars(select(Order.name)).all() == ["tea"]

    assert names(log) == ["tea"]
    assert [record.payload for record in log.read("orders", 0, 0)] == [{"id": 1}]


def test_a_commit_of_the_session_is_not_one_of_the_block(log: Log) -> None:
    with rolled_back(log) as connection, session_on(connection) as session:
        session.add(Order(name="tea"))
        log.append("orders", Event("order.created", {}))
        session.commit()

    assert names(log) == []
    assert log.marks("orders", 0).high == 0


def test_a_rollback_of_the_session_takes_its_events_along(log: Log) -> None:
    with log.transaction() as connection, session_on(connection) as session:
        session.add(Order(name="kept"))
        log.append("orders", Event("kept", {}))
        session.commit()
        session.add(Order(name="undone"))
        session.flush()
        log.append("orders", Event("undone", {}))
        session.rollback()

    assert names(log) == ["kept"]
    assert [record.kind for record in log.read("orders", 0, 0)] == ["kept"]


def test_an_engine_that_ends_transactions_by_itself_is_told_so(log: Log) -> None:
    with log.transaction() as connection:
        engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
        with refused("leave it to commit"), Session(engine) as session:
            session.add(Order(name="tea"))
            session.commit()

    assert names(log) == []
