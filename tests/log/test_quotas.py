"""Quotas of tenants: bytes stored, rates of appends, numbers of topics."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.log import Log
from strandline.log.store import Store
from strandline.stores.files import FileStore
from strandline.stores.memory import MemoryStore
from strandline.stores.sqlite import SqliteStore
from strandline.testing import FakeClock
from strandline.values import Event, InvalidError, QuotaError

Opening = Callable[[], Log]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "file", "sqlite"])
def opening(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Opening]:
    """Opens one log as often as it is asked, as several processes would; memory: only once."""
    opened: list[Log] = []

    def open_log() -> Log:
        store: Store[Any]
        if request.param == "memory":
            if opened:
                pytest.skip("a memory: log is open in one process")
            store = MemoryStore(clock=clock)
        elif request.param == "file":
            store = FileStore(str(tmp_path / "log"), clock=clock)
        else:
            store = SqliteStore(str(tmp_path / "log.db"), clock=clock)
        opened.append(Log(store, clock=clock, retention=False))
        return opened[-1]

    yield open_log
    for each in opened:
        each.close()


@pytest.fixture
def log(opening: Opening) -> Log:
    return opening()


def event(size: int = 10) -> Event:
    return Event("order", {"text": "x" * size})


def test_a_tenant_without_a_quota_appends_as_ever(log: Log) -> None:
    topic = log.create_topic("orders", tenant="acme")
    log.set_quota("other", bytes_max=1)

    assert [log.append(topic, event()).offset for _ in range(3)] == [0, 1, 2]
    assert [usage.tenant for usage in log.quotas()] == ["other"]


@pytest.mark.parametrize("value", [-1, 0])
@pytest.mark.parametrize("name", ["records_per_s", "bytes_per_s"])
def test_a_rate_is_at_least_one(log: Log, name: str, value: int) -> None:
    with pytest.raises(InvalidError, match=f"{name} is a whole number from 1"):
        log.set_quota("acme", **{name: value})


def test_what_would_go_beyond_the_bytes_is_refused_before_it_is_stored(
    log: Log, clock: FakeClock
) -> None:
    topic = log.create_topic("orders", tenant="acme")
    log.append(topic, event(100))
    (used,) = [log.set_quota("acme", bytes_max=1000).bytes]
    refused = event(2000)

    with pytest.raises(QuotaError, match="trim or drop") as caught:
        log.append(topic, refused)

    error = caught.value
    assert (error.quota, error.used, error.limit) == ("bytes_max", used, 1000)
    assert error.retry_after_s is None
    assert error.write == refused
    assert log.marks(topic, 0).high == 1
    assert log.append(topic, event(100)).offset == 1
    assert log.metrics().quota_refusals == 1

    log.trim(topic, 0, 2, force=True)
    clock.advance(1)
    assert log.append(topic, event(300)).offset == 2


def test_the_bytes_of_all_topics_of_a_tenant_count_and_of_no_other(log: Log) -> None:
    first = log.create_topic("first", tenant="acme")
    second = log.create_topic("second", tenant="acme")
    other = log.create_topic("first", tenant="other")
    log.set_quota("acme", bytes_max=1000)
    log.append(first, event(500))

    with pytest.raises(QuotaError):
        log.append_many(second, [event(200), event(400)])

    assert log.marks(second, 0).high == 0
    assert log.append(other, event(5000)).offset == 0


def test_a_rate_lets_a_second_s_worth_through_and_says_when_to_come_again(
    log: Log, clock: FakeClock
) -> None:
    topic = log.create_topic("orders", tenant="acme")
    log.set_quota("acme", records_per_s=10)

    for _ in range(10):
        log.append(topic, event())
    with pytest.raises(QuotaError) as caught:
        log.append(topic, event())

    assert (caught.value.quota, caught.value.limit) == ("records_per_s", 10)
    after_s = caught.value.retry_after_s
    assert after_s is not None
    assert 0 < after_s <= 1
    clock.advance(after_s)
    assert log.append(topic, event()).offset == 10
    with pytest.raises(QuotaError):
        log.append(topic, event())


def test_an_append_larger_than_a_second_s_worth_is_paid_for_afterwards(
    log: Log, clock: FakeClock
) -> None:
    topic = log.create_topic("orders", tenant="acme")
    log.set_quota("acme", bytes_per_s=100)

    log.append(topic, event(500))
    with pytest.raises(QuotaError) as caught:
        log.append(topic, event(1))

    assert caught.value.retry_after_s is not None
    assert caught.value.retry_after_s > 4
    clock.advance(caught.value.retry_after_s)
    log.append(topic, event(1))


def test_a_rate_is_shared_by_all_processes(opening: Opening, clock: FakeClock) -> None:
    logs = [opening() for _ in range(3)]
    topic = logs[0].create_topic("orders", tenant="acme")
    logs[0].set_quota("acme", records_per_s=40)

    stored = refused = 0
    for _ in range(40):
        for log in logs:
            try:
                log.append(log.topic("orders", tenant="acme"), event())
            except QuotaError:
                refused += 1
            else:
                stored += 1

    assert stored <= 40
    assert stored >= 20
    assert refused == 120 - stored
    assert logs[1].marks(topic, 0).high == stored


def test_a_rate_refuses_no_append_for_which_enough_was_drawn(
    opening: Opening, clock: FakeClock
) -> None:
    one, other = opening(), opening()
    topic = one.create_topic("orders", tenant="acme")
    one.set_quota("acme", records_per_s=100, bytes_per_s=1_000_000)
    one.append(topic, event())
    clock.advance(0.5)
    other.append_many(topic, [event()] * 150)

    drawn = one.append_many(topic, [event(20_000)] * 24)

    assert len(drawn) == 24
    with pytest.raises(QuotaError, match="records_per_s"):
        one.append(topic, event())


def test_a_quota_is_in_force_in_every_process_after_a_second(
    opening: Opening, clock: FakeClock
) -> None:
    first, second = opening(), opening()
    topic = first.create_topic("orders", tenant="acme")
    second.append(second.topic("orders", tenant="acme"), event())
    first.set_quota("acme", bytes_max=10)

    clock.advance(1)

    with pytest.raises(QuotaError):
        second.append(topic, event())
    first.set_quota("acme", bytes_max=None)
    clock.advance(1)
    assert second.append(topic, event()).offset == 1
    assert second.quotas() == []


def test_a_tenant_has_no_more_topics_than_it_may_have(log: Log) -> None:
    log.create_topic("first", tenant="acme")
    log.set_quota("acme", topics_max=2)
    log.create_topic("second", tenant="acme")

    with pytest.raises(QuotaError) as caught:
        log.create_topic("third", tenant="acme")

    assert (caught.value.quota, caught.value.used, caught.value.limit) == ("topics_max", 2, 2)
    log.create_topic("second", tenant="acme")
    log.create_topic("third", tenant="other")
    log.drop_topic(log.topic("first", tenant="acme"))
    log.create_topic("third", tenant="acme")
    assert [(each.tenant, each.topics) for each in log.quotas()] == [("acme", 2)]


def test_records_of_a_tenant_in_a_shared_topic_count_towards_its_rate(log: Log) -> None:
    log.create_topic("shared")
    log.set_quota("acme", records_per_s=1)
    log.append("shared", event(), tenant="acme")

    with pytest.raises(QuotaError):
        log.append("shared", event(), tenant="acme")

    assert log.append("shared", event()).offset == 1


def test_only_the_named_limits_change(log: Log) -> None:
    log.set_quota("acme", bytes_max=1000, topics_max=5)

    changed = log.set_quota("acme", bytes_max=None)

    assert changed.quota == sl.Quota(topics_max=5)


@pytest.mark.parametrize(
    ("tenant", "limits"),
    [
        ("acme", {}),
        ("acme", {"bytes_max": -1}),
        ("acme", {"records_per_s": 0}),
        ("acme", {"bytes_max": 1.5}),
        ("acme", {"sise": 1}),
        (None, {"bytes_max": 1}),
        ("", {"bytes_max": 1}),
    ],
)
def test_a_quota_that_makes_no_sense_is_refused(log: Log, tenant: str, limits: Any) -> None:
    with pytest.raises(InvalidError):
        log.set_quota(tenant, **limits)

    assert log.quotas() == []


def test_a_log_on_an_event_loop_obeys_quotas(tmp_path: Path) -> None:
    async def work() -> None:
        async with sl.open(f"file:{tmp_path / 'log'}") as log:
            topic = await log.create_topic("orders", tenant="acme")
            await log.set_quota("acme", bytes_max=100)
            with pytest.raises(QuotaError):
                await log.append(topic, event(1000))
            assert await log.append(topic, event(1)).wait() is not None

    asyncio.run(work())


def test_a_transaction_obeys_quotas(tmp_path: Path) -> None:
    with sl.open(f"sqlite:{tmp_path / 'log.db'}") as log:
        topic = log.create_topic("orders", tenant="acme")
        log.set_quota("acme", bytes_max=100, records_per_s=5)

        with log.transaction():
            log.append(topic, event(1))
            with pytest.raises(QuotaError):
                log.append(topic, event(1000))

        assert log.marks(topic, 0).high == 1
