"""Nearly correct calls: each raises a clear error, or works, and none does nothing."""

import asyncio
import copy
import os
import pickle
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import strandline as sl
from strandline.log import Log
from strandline.tiering import tier

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("id", pa.int64())])
#: What no type checker has seen.
LOOSE: Any = sl


class Totals(sl.View[list[int]]):
    def initial(self, partition: int) -> list[int]:
        return [partition]

    def apply(self, state: list[int], record: sl.Record) -> None:
        state.append(record.offset)


class Waiting(sl.View[list[int]]):
    def initial(self, partition: int) -> list[int]:
        return [partition]

    async def apply(self, state: list[int], record: sl.Record) -> None:
        await asyncio.sleep(0)
        state.append(record.offset)


class Yielding(Waiting):
    def apply(self, state: list[int], record: sl.Record) -> Iterator[int]:  # type: ignore[override]
        state.append(record.offset)
        yield record.offset


async def key_of(record: sl.Record) -> str | None:
    return record.key


def yielding(record: sl.Record) -> Iterator[int]:
    yield record.offset


async def yielding_on_a_loop(record: sl.Record) -> AsyncIterator[int]:
    yield record.offset


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Any]:
    with sl.open("memory:") as opened:
        opened.create_topic("orders", partitions=2)
        opened.append("orders", sl.Event("a"), partition=0)
        yield opened


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Log]:
    with sl.open(f"sqlite:{tmp_path / 'log.db'}") as opened:
        opened.create_topic("orders")
        opened.append("orders", sl.Event("a"))
        yield opened


WRONG: list[tuple[str, Callable[[Any], object]]] = [
    # Names of options that there are not.
    (
        "create_topic has no option .* near=.*retention_age_s",
        lambda log: log.create_topic("x", retention_age=1),
    ),
    (
        "append has no option .* option='headers'",
        lambda log: log.append("orders", sl.Event("a"), headers={}),
    ),
    (
        "append has no option .* option='key'",
        lambda log: log.append_many("orders", [sl.Event("a")], key="a"),
    ),
    (
        "append has no option .* option='is_plain'",
        lambda log: log.append("orders", sl.Event("a"), is_plain=True),
    ),
    ("read has no option .* option='limit'", lambda log: log.read("orders", 0, 0, limit=1)),
    (
        "read has no option .* near=.*records_max",
        lambda log: log.read_batches("orders", 0, 0, record_max=1),
    ),
    ("consumer has no option .* option='retry'", lambda log: log.consumer("orders", "c", retry=3)),
    (
        "consumer has no option .* near=.*visibility_s",
        lambda log: log.consumer("orders", "c", shared=True, visibility=3),
    ),
    ("on has no option .* near=.*retry", lambda log: LOOSE.Triggers(log).on("orders", retries=3)),
    # A URL or a path in place of a log, and the other way round.
    ("pass a log that is open", lambda _: LOOSE.subscribe("memory:", "orders")),
    ("pass a log that is open", lambda _: LOOSE.Triggers("memory:")),
    ("pass a log that is open", lambda _: LOOSE.Consumer("memory:", "orders", "mailer")),
    ("pass a log that is open", lambda _: LOOSE.LiveView(Path("log"), "orders", Totals())),
    ("open a URL with strandline.open", lambda _: LOOSE.Log("memory:")),
    ("write file:events for a directory", lambda _: LOOSE.open(Path("events"))),
    ("write file:./events for a directory", lambda _: sl.open("./events")),
    ("a log is named memory:", LOOSE.describe),
    ("as_uri", lambda log: tier(log, "orders", Path("cold"))),  # type: ignore[arg-type]
    # Values and times of another type.
    (r"write Event\(kind, payload\)", lambda log: log.append("orders", {"id": 1})),
    (
        r"this topic holds events, make one .* Event\(kind, payload\): kind='event' type='bytes'",
        lambda log: log.append("orders", b"x"),
    ),
    (
        "its partitions are 0 to 1: partition=9",
        lambda log: log.append("orders", sl.Event("a"), partition=9),
    ),
    ("its partitions are 0 to 1", lambda log: log.subscribe("orders", partitions=[9])),
    (r"start=\{0: 17, 1: 4\}", lambda log: log.subscribe("orders", start=0)),
    (r"log.marks\(topic, partition\).low", lambda log: log.read("orders", 0, sl.EARLIEST)),
    (r"log.marks\(topic, partition\).high", lambda log: log.read("orders", 0, sl.LATEST)),
    (r"moment.timestamp\(\) \* 1_000_000", lambda log: log.offset_at("orders", 0, NOW)),
    (
        "retention_age_s is a whole number",
        lambda log: log.create_topic("x", retention_age_s=timedelta(1)),
    ),
    (
        r"log.scope\(\).register",
        lambda log: log.create_topic("x", value_kind="batch", schema=SCHEMA),
    ),
    ("schema is a pyarrow.Schema", lambda _: LOOSE.parse_predicate("id = 1", {"id": "int"})),
    (
        "start is 'earliest', 'latest' or a datetime",
        lambda log: log.consumer("orders", "c", start=1),
    ),
    (
        "start is 'earliest', 'latest' or a datetime",
        lambda log: log.consumer("orders", "c", start={0: 1}),
    ),
    # Functions and views that would never run.
    (r"write Totals\(\)", lambda log: LOOSE.LiveView(log, "orders", Totals)),
    ("a view is an object of a View", lambda log: LOOSE.LiveView(log, "orders", print)),
    (r"write Totals\(\)", lambda _: LOOSE.load_snapshot("nowhere", Totals)),
    ("without async", lambda log: sl.LiveView(log, "orders", Waiting())),
    ("would never run", lambda log: sl.LiveView(log, "orders", Yielding())),
    ("a function that yields would never run", lambda _: sl.on("orders")(yielding)),
    ("a function that yields would never run", lambda _: sl.on("orders")(yielding_on_a_loop)),
    ("write it without async", lambda _: LOOSE.on("orders", dedupe_key=key_of)(print)),
    # Across processes.
    ("pass its URL and open it there", pickle.dumps),
    ("pass its URL and open it there", copy.deepcopy),
    ("pass its URL and open it there", lambda log: pickle.dumps(log.scope("acme"))),
]


@pytest.mark.parametrize(("told", "call"), WRONG, ids=range(len(WRONG)))
def test_the_error_of_a_call_that_is_nearly_right_has_the_right_one(
    told: str, call: Callable[[Any], object], log: Any
) -> None:
    with pytest.raises(sl.InvalidError, match=told):
        call(log)


@pytest.mark.parametrize(
    ("settings", "advised"),
    [
        ({"partitions": 4}, {"add_partitions"}),
        ({"partitions": 2, "limit_bytes": 10}, {"change_retention"}),
        ({"partitions": 3, "retention_age_s": 10}, {"add_partitions", "change_retention"}),
        ({"partitions": 1}, set()),
    ],
)
def test_a_topic_with_other_settings_names_what_changes_those_that_differ(
    settings: dict[str, Any], advised: set[str], log: Any
) -> None:
    with pytest.raises(sl.ConflictError) as caught:
        log.create_topic("orders", **settings)

    told = str(caught.value)
    assert {each for each in ("add_partitions", "change_retention") if each in told} == advised


def test_a_query_that_is_no_function_is_refused(log: Any) -> None:
    wrong: Any = "state"
    with (
        sl.LiveView(log, "orders", Totals()) as view,
        pytest.raises(sl.InvalidError, match="a query is a function of the state"),
    ):
        view.read(0, wrong)


def test_a_delivery_says_where_the_payload_is(log: Any) -> None:
    with log.consumer("orders", "mailer") as consumer:
        delivery = consumer.next(0)

    with pytest.raises(AttributeError, match=r"use its record: \.record\.payload"):
        _ = delivery.payload
    assert not hasattr(delivery, "offset")
    assert pickle.loads(pickle.dumps(delivery)) == copy.deepcopy(delivery) == delivery


def test_pairs_of_a_partition_and_its_start_may_be_lists(log: Any) -> None:
    with log.subscribe("orders", partitions=[[0, 1], [1, "latest"]]) as subscription:
        assert subscription.assignment.assigned() == [0, 1]
        assert subscription.assignment.position(0) == 1


def test_a_scope_drops_a_topic_by_whatever_names_it(log: Any) -> None:
    scope = log.scope("acme")
    for how in ("name", "topic", "id"):
        scope.drop(getattr(scope.register("typed", SCHEMA), how))
        assert [each.name for each in scope.topics()] == ["orders"]

    with pytest.raises(sl.InvalidError, match="no such topic of this tenant's own"):
        scope.drop("orders")


# --- the connection of a transaction ---


@pytest.mark.parametrize(
    ("told", "call"),
    [
        ("belong to the log", lambda c: c.execute("DROP TABLE strandline_records")),
        ("belong to the log", lambda c: c.cursor().execute("DELETE FROM main.Strandline_Records")),
        ("belong to the log", lambda c: c.executemany("DELETE FROM strandline_keyed", [()])),
        ("belong to the log", lambda c: c.execute("CREATE INDEX fast ON strandline_records (crc)")),
        ("belong to the log", lambda c: c.execute("CREATE TABLE strandline_mine (a)")),
        ("belong to the log", lambda c: c.execute("PRAGMA writable_schema = 1")),
        ("belong to the log", lambda c: c.blobopen("strandline_records", "body", 1)),
        ("more than your own rows", lambda c: c.set_authorizer(None)),
        ("more than your own rows", lambda c: c.deserialize(b"")),
        ("ends with its block", lambda c: c.executescript("DROP TABLE strandline_records")),
        ("ends with its block", lambda c: c.commit()),
    ],
)
def test_the_connection_changes_no_table_of_the_log(
    told: str, call: Callable[[sqlite3.Connection], object], database: Log
) -> None:
    with database.transaction() as connection:
        connection.execute("CREATE TABLE mine (a)")
        with pytest.raises(sl.InvalidError, match=told):
            call(connection)
        connection.execute("INSERT INTO mine VALUES (zeroblob(1))")
        with connection.blobopen("mine", "a", 1) as blob:
            blob.write(b"x")
        database.append("orders", sl.Event("b"))

    assert [each.kind for each in database.read("orders", 0, 0)] == ["a", "b"]
    assert all(report.is_sound for report in database.verify("orders"))


# --- forks ---


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_leaves_the_triggers_and_views_of_its_parent_alone(tmp_path: Path) -> None:
    """Leaving the blocks in the child waits for no thread that there is not."""
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        log.create_topic("orders")
        runner = sl.Triggers(log)
        runner.on("orders", name="printing")(print)
        with runner, sl.LiveView(log, "orders", Totals()) as view:
            child = os.fork()
            if child == 0:
                is_running = runner.is_running
                runner.request_stop()
                runner.stop()
                view.close()
                os._exit(1 if is_running else 0)
            _, status = os.waitpid(child, 0)
            assert runner.is_running

    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("mode", ["read", "consume"])
def test_an_append_in_a_lower_mode_names_the_one_it_needs(tmp_path: Path, mode: Any) -> None:
    url = f"file:{tmp_path / 'log'}"
    with sl.open(url) as log:
        log.create_topic("orders")

    with (
        sl.open(url, mode=mode) as log,
        pytest.raises(sl.InvalidError, match=f"open it with mode='write': mode='{mode}'"),
    ):
        log.append("orders", sl.Event("a"))


def test_a_file_that_is_no_database_and_a_missing_folder_are_named(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_text("no database " * 100)

    with pytest.raises(sl.CorruptError, match="this file is not an SQLite database"):
        sl.open(f"sqlite:{text}")
    with pytest.raises(sl.InvalidError, match="the folder of this database is missing"):
        sl.open(f"sqlite:{tmp_path / 'nodir' / 'a.db'}")
