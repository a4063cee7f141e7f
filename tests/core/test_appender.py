"""A warm append by the core, from the name of a topic to the receipt."""

import asyncio
import errno
import gc
import os
import weakref
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.io import SystemIo
from strandline.log import Log
from strandline.testing import FakeClock, FaultyBroker, FaultyIo
from strandline.values import Durability
from tests.core.plain import needs_core
from tests.core.test_references import grown
from tests.log.files.test_warm_append import traced
from tests.logs import file_log

pytestmark = needs_core


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no topic looked at again, however slow a test is."""
    monkeypatch.setattr("strandline.log.topic_lane.ROUTE_CHECK_S", 3600.0)


@pytest.fixture(params=[False, True], ids=["shared", "exclusive"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    with file_log(f"{tmp_path}/log", exclusive=request.param) as made:
        made.create_topic("orders")
        made.append("orders", sl.Event("first"))
        yield made


def appender(log: Log) -> Any:
    """Return what appends to `orders` in place of Python, if there is one."""
    found: Any = log._appenders  # noqa: SLF001 - Only this shows it.
    return found.get("orders")


def test_one_python_function_is_called(tmp_path: Path) -> None:
    with file_log(f"{tmp_path}/log", exclusive=True) as log:
        log.create_topic("orders")
        log.append("orders", sl.Event("first"))

        # Now and then an owner looks after its files, in Python.
        append = partial(log.append, "orders", sl.Event("k"))
        fewest = min((traced(append) for _ in range(20)), key=len)

    assert fewest == ["log.py append"]


def test_a_receipt_has_all_that_one_by_python_has(log: Log) -> None:
    warm = log.append("orders", sl.Event("k"))
    plain = log.append("orders", sl.Event("k"), producer="p", sequence=0)

    assert type(warm) is type(plain)
    assert (warm.offset, plain.offset) == (1, 2)
    assert (warm.partition, warm.is_repeat, warm.is_settled) == (0, False, True)
    assert 0 <= plain.timestamp_us - warm.timestamp_us < 3600 * 1_000_000
    assert warm.level is plain.level is Durability.WRITTEN
    assert repr(warm).replace("offset=1", "offset=2").split(", ")[:2] == repr(plain).split(", ")[:2]
    assert str(warm.wait("durable").level) == "durable"
    assert [each.offset for each in log.read("orders", 0, 0)] == [0, 1, 2]


def test_a_receipt_is_awaited_on_a_loop(log: Log) -> None:
    async def work() -> sl.Receipt:
        return await log.append("orders", sl.Event("k"))

    assert asyncio.run(work()).offset == 1


@pytest.mark.parametrize(
    "level", [Durability.WRITTEN, "written", Durability.DURABLE, "durable", None]
)
def test_an_append_reaches_the_level_that_it_requests(tmp_path: Path, level: Any) -> None:
    with file_log(f"{tmp_path}/log") as log:
        log.create_topic("orders")
        log.append("orders", sl.Event("first"))

        receipt = log.append("orders", sl.Event("k"), durability=level)

        assert receipt.level is Durability.parse(level or "written")
        # These the core appends by itself, and counts.
        assert appender(log).take_counts()[0] == (level is not None)


def test_terms_are_checked_as_in_python(log: Log) -> None:
    wrong: list[dict[str, Any]] = [{"durability": "no"}, {"partition": 1}, {"produce": "p"}]
    for terms in wrong:
        with pytest.raises(sl.InvalidError):
            log.append("orders", sl.Event("k"), **terms)

    assert log.marks("orders", 0).high == 1


def test_a_receipt_cannot_be_changed(log: Log) -> None:
    receipt: Any = log.append("orders", sl.Event("k"))

    for name in ("offset", "_level", "_outcome", "note"):
        with pytest.raises(AttributeError):
            setattr(receipt, name, 1)


def test_metrics_count_each_append_once(log: Log) -> None:
    sizes = []
    for number in range(5):
        before = log.metrics().bytes
        log.append("orders", sl.Event("k", number))
        sizes.append(log.metrics().bytes - before)
    log.append_many("orders", [sl.Event("k", 1)] * 3)

    counted = log.metrics()
    assert (counted.appends, counted.records) == (7, 9)
    assert sizes == [sizes[0]] * 5
    assert sizes[0] > 0


def test_a_closed_log_takes_nothing(log: Log) -> None:
    log.close()

    with pytest.raises(sl.ClosedError):
        log.append("orders", sl.Event("k"))


def test_a_child_of_a_fork_gets_closed_error(log: Log) -> None:
    child = os.fork()
    if child == 0:
        try:
            log.append("orders", sl.Event("k"))
        except sl.ClosedError:
            os._exit(7)
        os._exit(1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert log.append("orders", sl.Event("k")).offset == 1


def test_a_topic_that_was_dropped_and_made_again_is_the_one_written_to(log: Log) -> None:
    former = appender(log)
    log.drop_topic("orders")
    log.create_topic("orders")

    receipts = [log.append("orders", sl.Event("new")) for _ in range(4)]

    assert [each.offset for each in receipts] == [0, 1, 2, 3]
    assert [each.kind for each in log.read("orders", 0, 0)] == ["new"] * 4
    assert appender(log) is not former


def test_a_writer_that_shares_continues_by_the_core_after_a_take_over(tmp_path: Path) -> None:
    with file_log(f"{tmp_path}/log") as log:
        log.create_topic("orders")
        log.append("orders", sl.Event("k"))
        taken = file_log(f"{tmp_path}/log", take_over=True, exclusive=True, lock_timeout_s=0.01)
        taken.append("orders", sl.Event("k"))
        taken.close()

        receipts = [log.append("orders", sl.Event("k")) for _ in range(5)]

        assert [each.offset for each in receipts] == [2, 3, 4, 5, 6]
        assert not appender(log).is_closed
        assert appender(log).take_counts()[0] > 0


def test_a_log_with_a_broker_has_no_appender(tmp_path: Path) -> None:
    broker = FaultyBroker()
    with file_log(f"{tmp_path}/log", broker=broker) as log:
        log.create_topic("orders")
        for _ in range(3):
            log.append("orders", sl.Event("k"))

        # It would leave the broker out.
        assert log._appenders is None  # noqa: SLF001 - Only this shows it.


@pytest.mark.parametrize("nth", [1, 2])
def test_a_failed_write_ends_the_log_as_in_python(tmp_path: Path, nth: int) -> None:
    io = FaultyIo(SystemIo())
    with file_log(f"{tmp_path}/log", io=io, clock=FakeClock(), exclusive=True) as log:
        log.create_topic("orders")
        log.append("orders", sl.Event("k"))
        assert appender(log) is not None
        io.fail(nth, errno.EIO)

        with pytest.raises(sl.UnknownError) as caught:
            log.append("orders", sl.Event("k"))
        with pytest.raises(sl.FailedError):
            log.append("orders", sl.Event("k"))

    assert isinstance(caught.value.__cause__, OSError)


def test_a_lock_that_cannot_be_taken_hands_the_event_back(tmp_path: Path) -> None:
    io = FaultyIo(SystemIo())
    event = sl.Event("k")
    with file_log(f"{tmp_path}/log", io=io, clock=FakeClock()) as log:
        log.create_topic("orders")
        log.append("orders", event)
        io.fail(1, errno.EIO)

        with pytest.raises(sl.UnavailableError) as caught:
            log.append("orders", event)
        io.clear_faults()

        assert caught.value.write is event
        assert log.append("orders", event).offset == 1


@pytest.mark.parametrize(
    "value", [b"bytes", "text", None, 7, sl.Event("k", "x" * 200)], ids=lambda each: str(each)[:6]
)
def test_what_may_not_be_stored_is_refused_as_in_python(tmp_path: Path, value: Any) -> None:
    with file_log(f"{tmp_path}/log", record_bytes_max=100) as log:
        log.create_topic("orders")
        log.append("orders", sl.Event("k"))

        with pytest.raises(sl.InvalidError):
            log.append("orders", value)
        topics: list[Any] = [[], None, 7, "no such topic"]
        for topic in topics:
            with pytest.raises(sl.InvalidError):
                log.append(topic, sl.Event("k"))

        assert log.marks("orders", 0).high == 1


@pytest.mark.slow
def test_no_block_is_left_behind_by_many_appends(log: Log) -> None:
    def append() -> None:
        receipt = log.append("orders", sl.Event("k"))
        assert (receipt.offset, receipt.level) != (0, None)

    assert grown(append, 2_000) < 200


def test_a_log_that_is_no_longer_referred_to_goes_with_its_appenders(tmp_path: Path) -> None:
    log: Any = file_log(f"{tmp_path}/log")
    log.create_topic("orders")
    receipts = [log.append("orders", sl.Event("k")) for _ in range(3)]
    store = weakref.ref(log._store)  # noqa: SLF001 - A log cannot be referred to weakly.
    log.close()

    del log, receipts
    gc.collect()

    assert store() is None


def test_tasks_append_in_the_order_of_their_calls(tmp_path: Path) -> None:
    async def work() -> list[int]:
        async with file_log(f"{tmp_path}/log") as log:
            await log.create_topic("orders")
            await log.append("orders", sl.Event("first"))
            waiting = []
            for number in range(200):
                # What has to be durable is queued; what follows must not overtake it.
                terms: Any = {} if number % 7 else {"durability": "durable"}
                waiting.append(log.append("orders", sl.Event("k", number), **terms))
            receipts = [await each for each in waiting]
            assert log.blocking.metrics().appends == 201
            return [each.offset for each in receipts]

    assert asyncio.run(work()) == list(range(1, 201))


def test_a_task_gets_the_error_of_a_failed_append_when_it_awaits(tmp_path: Path) -> None:
    io = FaultyIo(SystemIo())

    async def work() -> None:
        async with file_log(f"{tmp_path}/log", io=io, clock=FakeClock(), exclusive=True) as log:
            await log.create_topic("orders")
            for _ in range(3):
                await log.append("orders", sl.Event("k"))
            io.fail(1, errno.EIO)
            receipt = log.append("orders", sl.Event("k"))
            with pytest.raises(sl.UnknownError):
                await receipt

    asyncio.run(work())
