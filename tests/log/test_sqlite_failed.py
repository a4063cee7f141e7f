"""What calls besides appends do once a sync has failed: each has its effect, or raises."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import strandline as sl
from strandline.io import SystemIo
from strandline.log import Log
from strandline.stores.sqlite import SqliteStore
from strandline.testing import FaultyIo


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "log.db")


@pytest.fixture
def failed(path: str) -> Iterator[Log]:
    io = FaultyIo(SystemIo())
    with Log(SqliteStore(path, io=io), retention=False) as log:
        log.create_topic("orders")
        log.append_many("orders", [sl.Event("order", {"n": n}) for n in range(10)])
        log.ack("orders", "known", 0, 1)
        io.fail(1, errno.EIO, kinds=["sync"])
        with pytest.raises(sl.FailedError):
            log.append("orders", sl.Event("order"), durability="durable")
        yield log


def test_a_trim_takes_effect_and_says_that_its_space_is_given_back_later(
    failed: Log, path: str
) -> None:
    report = failed.trim("orders", 0, 5, force=True)

    assert (report.removed, report.low, report.is_released) == (5, 5, False)
    assert failed.marks("orders", 0).low == 5
    failed.close()
    with sl.open(f"sqlite:{path}") as log:
        assert log.marks("orders", 0).low == 5


def test_a_topic_is_dropped(failed: Log) -> None:
    failed.drop_topic("orders")

    assert failed.topics() == []


CALLS: dict[str, Callable[[Log], object]] = {
    "create_topic": lambda log: log.create_topic("others"),
    "ack": lambda log: log.ack("orders", "known", 0, 2),
    "first ack": lambda log: log.ack("orders", "new", 0, 2),
    "register": lambda log: log.register("orders", "new", {0: 0}),
    "seek": lambda log: log.seek("orders", "known", 0, 4),
    "delete_consumer": lambda log: log.delete_consumer("orders", "known"),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_has_to_be_durable_is_refused_with_nothing_done(
    failed: Log, call: str, path: str
) -> None:
    with pytest.raises(sl.FailedError):
        CALLS[call](failed)

    failed.close()
    with sl.open(f"sqlite:{path}") as log:
        assert [each.name for each in log.topics()] == ["orders"]
        assert [(each.consumer, each.cursor) for each in log.consumers("orders")] == [("known", 1)]
