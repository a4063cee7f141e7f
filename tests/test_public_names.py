"""What a user holds says what it is, and shows nothing that is not part of the promise."""

import inspect
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import strandline as sl
from strandline.log import Log, LogConsumers, LogReader, LogTopics, LogTransactions, LogWriter
from strandline.testing import FakeClock
from strandline.tiering import TieringWorker
from strandline.values.prompt import SHOWN_MAX
from tools.api_pages import ROOMS

HELD = (
    *ROOMS,
    "strandline.subscriptions",
    "strandline.typed",
    "strandline.views",
)
#: What a log has besides what the contract says.
BESIDES = {
    *("set_quota", "quotas", "erase"),
    *("close", "consumer", "describe", "durability_max", "id", "mode", "queue_depth"),
    *("event", "metrics", "scan", "scope", "subscribe"),
}


#: What only authors of stores have.
FOR_STORES = {
    *("LocalClaims", "Identities", "LoopThread", "OpenState", "ListReads", "TopicTable"),
    "Watches",
}


class Totals(sl.View[list[int]]):
    def initial(self, partition: int) -> list[int]:
        return [partition]

    def apply(self, state: list[int], record: sl.Record) -> None:
        state.append(record.offset)


def public_classes() -> Iterator[type]:
    """Yield each class that a user can meet, wherever it is exported."""
    for room in HELD:
        module = import_module(room)
        for name in module.__all__:
            value = getattr(module, name)
            if name in FOR_STORES or not inspect.isclass(value):
                continue
            if not issubclass(value, BaseException | Enum):
                yield value


def is_only_a_shape(kind: type) -> bool:
    """Whether no user has an object of this very class: a protocol, or what others extend."""
    members = vars(kind).values()
    is_abstract = any(getattr(each, "__isabstractmethod__", False) for each in members)
    return is_abstract or getattr(kind, "_is_protocol", False)


@pytest.mark.parametrize("kind", sorted(set(public_classes()), key=str))
def test_every_public_class_says_how_it_is_shown(kind: type) -> None:
    own: object = kind.__repr__
    assert is_only_a_shape(kind) or own is not object.__repr__


def results_of_reading(log: Log) -> Iterator[object]:
    yield from log.read("orders", 0, 0)
    yield from (log.read_batches("orders", 0, 0), log.marks("orders", 0), log.epochs("orders", 0))
    yield from (log.segments("orders", 0), log.position("orders", 0, 0), log.describe())
    yield from (log.describe_topic("orders"), log.history("orders", 0), log.watch(), log.metrics())
    yield from (log.claim("orders", "shipping", 0), log.trim("orders", 0, 0), log.verify("orders"))
    with (
        log.subscribe("orders", markers=True) as subscription,
        log.consumer("orders", "mailer") as consumer,
    ):
        yield from (subscription, subscription.assignment, *(subscription.next(0) for _ in "123"))
        yield from (consumer, consumer.next(0), consumer.lag(), log.consumers("orders"))
    yield from (subscription, consumer)


def results_of_rooms(log: Log, folder: Path) -> Iterator[object]:
    scope = log.scope("acme")
    yield from (scope, scope.register("typed", pa.schema([("a", pa.int64())])), scope.topics())
    yield scope.publish("typed", pa.record_batch({"a": [1, 2]}))
    with scope.subscribe("typed", consumer="billing") as scoped:
        yield from (scoped, scoped.next(0), *scope.replay("typed"), scope.consumers("typed"))
    with sl.LiveView(log, "orders", Totals()) as view:
        view.reconcile([0])
        view.wait_ready()
        yield from (view, Totals(), view.health(), view.publish(sl.Event("published")))
    yield from (sl.PendingView[list[int]](), sl.LocalBroker(), sl.MachineBroker(folder / "broker"))
    runner = sl.Triggers(log)
    runner.on("orders", name="printing")(print)
    yield from (runner, runner.metrics(), FakeClock())
    with runner:
        yield repr(runner)
    worker = TieringWorker(log, ["orders"], f"file://{folder / 'cold'}")
    yield worker
    worker.close()


def held(log: Log, folder: Path) -> Iterator[object]:
    """Yield what the public calls give."""
    event = sl.Event("a", {"n": 1}, key="k", headers={"h": "1"})
    yield from (log, log.create_topic("orders"), event)
    yield from (log.append("orders", event), log.append_many("orders", [event] * 3))
    yield from results_of_reading(log)
    yield from results_of_rooms(log, folder)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["memory", "file", "sqlite"])
def test_whatever_a_log_gives_says_what_it_is(scheme: str, tmp_path: Path) -> None:
    url = "memory:" if scheme == "memory" else f"{scheme}:{tmp_path / 'log'}"
    with sl.open(url) as log:
        shown = [repr(each) for each in held(log, tmp_path)]

    assert len(shown) > 40
    assert [text for text in shown if " object at 0x" in text] == []


def test_a_transaction_says_how_it_is_used(tmp_path: Path) -> None:
    with sl.open(f"sqlite:{tmp_path / 'log.db'}") as log:
        transaction: Any = log.transaction()

        with pytest.raises(AttributeError, match=r"with log.transaction\(\) as connection"):
            transaction.execute("SELECT 1")
        assert repr(transaction) == f"Transaction('sqlite:{tmp_path / 'log.db'}')"
        with transaction as connection:
            assert repr(connection) == "Connection(inside log.transaction())"
            assert repr(connection.cursor()) == "Cursor(Connection(inside log.transaction()))"
        assert repr(connection) == "Connection(closed)"


def test_what_is_long_is_cut(tmp_path: Path) -> None:
    with sl.open("memory:") as log:
        log.create_topic("raw", value_kind="bytes", partitions=100)
        log.append("raw", b"x" * 10**6, partition=0)
        (record,) = log.read("raw", 0, 0)
        with log.subscribe("raw") as subscription:
            shown = repr(subscription)

    assert len(repr(record)) < 300
    assert repr(record).startswith("Record(topic='raw', partition=0, offset=0, ")
    assert f"… {100 - SHOWN_MAX} more" in shown
    assert "closed" in repr(subscription)


def test_a_log_shows_its_contract_and_nothing_else() -> None:
    contract = {
        name
        for part in (LogTopics, LogWriter, LogReader, LogConsumers, LogTransactions)
        for name in vars(part)
    }

    with sl.open("memory:") as log:
        public = {name for name in dir(log) if not name.startswith("_")}

    assert public - contract <= BESIDES
    assert public >= {name for name in contract if not name.startswith("_")}
