"""A call that raises has changed nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import strandline as sl
from strandline.stores.files import FileStore
from strandline.stores.sqlite import SqliteStore
from strandline.subscriptions.outstanding import Outstanding
from strandline.values import Offset, Topic
from tests.subscriptions.doubles import fill


class RefusingLog(sl.Log):
    """Refuses what a consumer stores, while that is set."""

    is_refusing = False

    def append(self, *args: Any, **terms: Any) -> sl.Receipt:
        self._refuse()
        return super().append(*args, **terms)

    def create_topic(self, *args: Any, **options: Any) -> Topic:
        self._refuse()
        return super().create_topic(*args, **options)

    def ack(self, *args: Any, **options: Any) -> Offset:
        self._refuse()
        return super().ack(*args, **options)

    def seek(self, *args: Any, **options: Any) -> None:
        self._refuse()
        super().seek(*args, **options)

    def _refuse(self) -> None:
        if self.is_refusing:
            raise sl.UnavailableError("refused")


@pytest.fixture(params=["file", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RefusingLog]:
    path = str(tmp_path / "events")
    with RefusingLog(FileStore(path) if request.param == "file" else SqliteStore(path)) as opened:
        opened.create_topic("orders")
        fill(opened, "orders", 0, 3)
        yield opened


@pytest.fixture
def worker(log: RefusingLog) -> Iterator[sl.Consumer]:
    with log.consumer("orders", "worker", deliveries_max=1) as opened:
        yield opened


def taken(consumer: sl.Consumer, count: int) -> list[sl.Record]:
    """Return the next records."""
    found = [consumer.next(0.0) for _ in range(count)]
    return [delivery.record for delivery in found if delivery is not None]


@contextmanager
def refused(log: RefusingLog) -> Iterator[None]:
    """Make calls that the log refuses."""
    log.is_refusing = True
    with pytest.raises(sl.UnavailableError, match="refused"):
        yield
    log.is_refusing = False


def test_an_ack_that_is_refused_moves_nothing(log: RefusingLog, worker: sl.Consumer) -> None:
    first, second, third = taken(worker, 3)

    with refused(log):
        worker.ack(first)
    worker.ack(second)

    assert log.cursor("orders", "worker", 0) == 0
    assert worker.lag() == {0: 3}
    worker.ack(first)
    assert log.cursor("orders", "worker", 0) == 2
    worker.ack(third)
    assert log.cursor("orders", "worker", 0) == 3


def test_a_nack_that_is_refused_dead_letters_nothing(log: RefusingLog, worker: sl.Consumer) -> None:
    (first,) = taken(worker, 1)

    with refused(log):
        worker.nack(first)
    with refused(log):
        worker.dead_letter(first)

    assert not log.topics(internal=True) or "dead_letters" not in str(log.topics(internal=True))
    assert worker.nack(first)


def test_a_seek_that_is_refused_moves_nothing(log: RefusingLog, worker: sl.Consumer) -> None:
    (first,) = taken(worker, 1)

    with refused(log):
        worker.seek(0, 2)
    for partition, offset in ((0, 9), (0, -1), (7, 0)):
        with pytest.raises(sl.InvalidError):
            worker.seek(partition, offset)

    assert log.cursor("orders", "worker", 0) == 0
    worker.ack(first)
    assert [record.offset for record in taken(worker, 2)] == [1, 2]


@pytest.mark.parametrize("delay_s", [-1.0, float("nan"), float("inf")])
def test_a_nack_with_a_delay_that_is_none_changes_nothing(
    log: sl.Log, worker: sl.Consumer, delay_s: float
) -> None:
    (first,) = taken(worker, 1)

    with pytest.raises(sl.InvalidError, match="delay"):
        worker.nack(first, delay_s=delay_s)

    worker.ack(first)
    assert log.cursor("orders", "worker", 0) == 1


def test_an_ack_that_settles_before_it_stores_is_found_out(
    log: RefusingLog, worker: sl.Consumer
) -> None:
    def settling(self: Outstanding, offsets: list[int]) -> int:
        self.settle(offsets)
        return self.floor + 1

    with (
        mock.patch.object(Outstanding, "floor_after", settling),
        pytest.raises((AssertionError, sl.InvalidError)),
    ):
        test_an_ack_that_is_refused_moves_nothing(log, worker)
