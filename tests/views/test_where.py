"""Views that fold only the records that match a predicate."""

from pathlib import Path
from typing import ClassVar

import pytest

import strandline as sl
from strandline.predicates import PredicateError
from strandline.views.folding import folded


class LargeOrders(sl.View[list[int]]):
    where: ClassVar[str] = "payload.amount >= 100"

    def initial(self, partition: int) -> list[int]:  # noqa: ARG002 - Not needed.
        return []

    def apply(self, state: list[int], record: sl.Record) -> None:
        state.append(record.offset)

    def encode(self, state: list[int]) -> bytes:
        return bytes(state)

    def decode(self, stored: bytes) -> list[int]:
        return list(stored)


class AllOrders(LargeOrders):
    where = ""

    @property
    def name(self) -> str:
        return LargeOrders.__qualname__


class FailingOrders(LargeOrders):
    where = "payload.amount::INT >= 100"


@pytest.fixture
def log() -> sl.Log:
    made = sl.open("memory:")
    made.create_topic("orders")
    for amount in (5, 100, 7, 300):
        made.append("orders", sl.Event("order", {"amount": amount}))
    return made


def states(log: sl.Log, view: sl.View[list[int]], snapshot: Path | None = None) -> list[int]:
    with sl.LiveView(log, "orders", view, snapshot=snapshot) as live:
        live.reconcile([0])
        live.wait_ready(timeout_s=20)
        return live.read(0, list) or []


def test_a_view_folds_what_matches_and_is_ready_behind_the_rest(log: sl.Log) -> None:
    with sl.LiveView(log, "orders", LargeOrders()) as live:
        live.reconcile([0])
        live.wait_ready(timeout_s=20)
        assert live.read(0, list) == [1, 3]

        live.publish(sl.Event("order", {"amount": 1}), timeout_s=20)
        live.publish(sl.Event("order", {"amount": 900}), timeout_s=20)
        assert live.read(0, list) == [1, 3, 5]


def test_a_snapshot_of_another_predicate_is_not_used(log: sl.Log, tmp_path: Path) -> None:
    path = tmp_path / "orders.snapshot"

    assert states(log, LargeOrders(), path) == [1, 3]
    assert states(log, AllOrders(), path) == [0, 1, 2, 3]
    assert states(log, LargeOrders(), path) == [1, 3]


def test_a_partition_that_is_folded_at_once_has_the_same_state(log: sl.Log) -> None:
    found = folded(log, log.topic("orders"), LargeOrders(), 0, quarantines=False)

    assert found.stored is not None
    assert found.stored[1] == bytes([1, 3])


def test_a_record_on_which_the_predicate_fails_is_poison(log: sl.Log) -> None:
    log.append("orders", sl.Event("order", {"amount": "many"}))
    log.append("orders", sl.Event("order", {"amount": 200}))

    with sl.LiveView(log, "orders", FailingOrders(), poison="quarantine") as live:
        live.reconcile([0])
        live.wait_ready(timeout_s=20)

        assert live.read(0, list) == [1, 3, 5]
        assert list(live.health().partitions[0].quarantined) == [4]


def test_text_that_does_not_fit_the_topic_is_refused_when_the_view_is_opened(log: sl.Log) -> None:
    class Wrong(LargeOrders):
        where = "amount >= 100"

    with pytest.raises(PredicateError, match="there is no column amount"):
        sl.LiveView(log, "orders", Wrong())
