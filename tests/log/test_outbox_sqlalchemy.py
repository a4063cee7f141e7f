"""SQLAlchemy inside a transaction of the log, on the log's connection."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest
from sqlalchemy import create_engine, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import StaticPool

from strandline.log import Log
from strandline.stores.sqlite.block import BlockConnection
from strandline.values import Event
from tests.log.shop import ChangedMindError, refused, rolled_back
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
    """Return a session whose commits and rollbacks end its own savepoint, and no more."""
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
    session = Session(joined, join_transaction_mode="create_savepoint")
    assert isinstance(connection, BlockConnection)
    connection.before_append(session.connection)
    return session


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


def roll_back(log: Log, session: Session) -> None:
    order(log, session, "undone")
    session.rollback()


def roll_back_after_a_commit(log: Log, session: Session) -> None:
    order(log, session, "kept")
    session.commit()
    order(log, session, "undone")
    session.rollback()


def roll_back_twice(log: Log, session: Session) -> None:
    roll_back(log, session)
    roll_back(log, session)
    order(log, session, "kept")
    session.commit()


def fail_in_a_nested_unit(log: Log, session: Session) -> None:
    with contextlib.suppress(ChangedMindError), session.begin_nested():
        order(log, session, "undone")
        raise ChangedMindError
    order(log, session, "kept")
    session.commit()


def keep_a_nested_unit_and_roll_back(log: Log, session: Session) -> None:
    with session.begin_nested():
        order(log, session, "undone")
    session.rollback()


def keep_a_nested_unit_beside_one_that_failed(log: Log, session: Session) -> None:
    with session.begin_nested():
        order(log, session, "kept")
        with contextlib.suppress(ChangedMindError), session.begin_nested():
            order(log, session, "undone")
            raise ChangedMindError
    session.commit()


def forget_to_commit(log: Log, session: Session) -> None:
    order(log, session, "undone")


def close_and_continue(log: Log, session: Session) -> None:
    order(log, session, "undone")
    session.close()
    order(log, session, "kept")
    session.commit()


def fail_in_a_unit(log: Log, session: Session) -> None:
    with contextlib.suppress(ChangedMindError), session.begin():
        order(log, session, "undone")
        raise ChangedMindError


def break_a_constraint(log: Log, session: Session) -> None:
    order(log, session, "undone")
    session.add_all([Order(id=7, name="one"), Order(id=7, name="other")])
    with pytest.raises(IntegrityError):
        session.flush()
    session.rollback()


UNITS = (
    roll_back,
    roll_back_after_a_commit,
    roll_back_twice,
    fail_in_a_nested_unit,
    keep_a_nested_unit_and_roll_back,
    keep_a_nested_unit_beside_one_that_failed,
    forget_to_commit,
    close_and_continue,
    fail_in_a_unit,
    break_a_constraint,
)


def order(log: Log, session: Session, name: str) -> None:
    """The row is written when the session likes, as a rule after the event."""
    session.add(Order(name=name))
    log.append("orders", Event(name, {}))


@pytest.mark.filterwarnings("ignore:.*conflicts with persistent instance")
@pytest.mark.parametrize("unit", UNITS)
def test_an_event_is_there_exactly_if_its_row_is(
    log: Log, unit: Callable[[Log, Session], None]
) -> None:
    with log.transaction() as connection, session_on(connection) as session:
        unit(log, session)

    kinds = [record.kind for record in log.read("orders", 0, 0)]
    assert kinds == names(log)
    assert "undone" not in kinds


def test_a_late_savepoint_is_found(log: Log) -> None:
    with mock.patch.object(BlockConnection, "prepare_append"), pytest.raises(AssertionError):
        test_an_event_is_there_exactly_if_its_row_is(log, roll_back)


def test_an_engine_that_ends_transactions_by_itself_gets_an_error(log: Log) -> None:
    with log.transaction() as connection:
        engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
        with refused("leave it to commit"), Session(engine) as session:
            session.add(Order(name="tea"))
            session.commit()

    assert names(log) == []
