"""Readers that join, leave and move about while others append: seeded, with real threads."""

import asyncio
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from strandline.log import Log
from strandline.subscriptions import AsyncSubscription, Subscription, pages, subscribe
from strandline.values import EARLIEST, LATEST, Event, Record
from tests.subscriptions.doubles import PATIENCE_S, SteeredLog, fill, on_thread, unreliable

APPENDERS = 3
BURSTS = 60
PARTITIONS = 3
Ends = dict[int, int]


@pytest.fixture(autouse=True)
def eager_threads() -> Iterator[None]:
    """Threads take turns after a few steps, so that bursts and reads really interleave."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval_s)


@pytest.fixture(autouse=True)
def frequent_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost hints are many here, and a second for each would be long."""
    monkeypatch.setattr(pages, "POLL_S", 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_readers_that_join_at_any_moment_lose_and_repeat_nothing(seed: int) -> None:
    """TE5, WE6: three appenders, six readers, hints that are lost, repeated and late."""
    log = crowded_log(seed)
    rng = random.Random(seed)
    appenders = start_appenders(log, seed)
    readers = []
    for number in range(6):
        joined = subscribe(
            log, "orders", start=rng.choice([EARLIEST, LATEST]), read_ahead=rng.choice([1, 2, 32])
        )
        readers.append((starts_of(joined), on_thread(reading(joined, on_loop=number % 2 == 0))))
        while rng.random() < 0.7:
            fill(log, "orders", rng.randrange(PARTITIONS), 1)

    finish(log, appenders)

    for starts, reader in readers:
        check_consecutive(reader.result(PATIENCE_S), starts, ends_of(log), seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_any_mix_of_add_remove_and_publish_stays_consecutive(seed: int) -> None:
    """TA15: each generation strictly consecutive from its start, and nothing after a remove."""
    log = crowded_log(seed)
    rng = random.Random(seed)
    appenders = start_appenders(log, seed)
    subscription = subscribe(log, "orders", partitions=(), read_ahead=rng.choice([1, 3, 50]))
    expected: Ends = {}

    for _ in range(1500):
        partition = rng.randrange(PARTITIONS)
        if rng.random() < 0.15:
            if partition in expected:
                assert subscription.assignment.remove(partition) == expected.pop(partition)
            else:
                start = rng.randint(0, log.marks("orders", partition).high)
                subscription.assignment.add(partition, start)
                expected[partition] = start
        elif record := subscription.next(0.0):
            assert record.partition in expected, f"after remove, seed={seed}"
            assert record.offset == expected[record.partition], f"seed={seed}"
            expected[record.partition] += 1

    for appender in appenders:
        appender.result(PATIENCE_S)
    while record := subscription.next(0.0):
        assert record.offset == expected[record.partition], f"seed={seed}"
        expected[record.partition] += 1
    assert all(ends_of(log)[partition] == end for partition, end in expected.items())
    assert subscription.assignment.assigned() == sorted(expected)


@pytest.mark.parametrize("seed", range(6))
def test_an_assignment_changed_from_another_thread_stays_consecutive(seed: int) -> None:
    """TA15: remove hands over to add; no record is lost between or comes twice."""
    log = crowded_log(seed)
    appenders = start_appenders(log, seed)
    subscription = subscribe(log, "orders", read_ahead=5)
    reader = on_thread(reading(subscription, on_loop=False))
    rng = random.Random(seed)

    for _ in range(300):
        partition = rng.randrange(PARTITIONS)
        following = subscription.assignment.remove(partition)
        assert following is not None
        subscription.assignment.add(partition, following)

    finish(log, appenders)
    starts = dict.fromkeys(range(PARTITIONS), 0)
    check_consecutive(reader.result(PATIENCE_S), starts, ends_of(log), seed)


def test_cancelled_and_abandoned_readers_are_harmless() -> None:
    """S5: most readers are cancelled at a random moment; the one that stays gets everything."""
    log = crowded_log(0)
    appenders = start_appenders(log, 0)
    steady = subscribe(log, "orders", read_ahead=8)
    starts = starts_of(steady)
    reader = on_thread(reading(steady, on_loop=False))

    async def cancel_many() -> None:
        rng = random.Random(0)
        for _ in range(50):
            with subscribe(log, "orders", read_ahead=2) as subscription:
                step = asyncio.ensure_future(anext(AsyncSubscription(subscription)))
                for _ in range(rng.randrange(4)):
                    await asyncio.sleep(0)
                step.cancel()
                await asyncio.wait([step])

    asyncio.run(cancel_many())
    finish(log, appenders)

    check_consecutive(reader.result(PATIENCE_S), starts, ends_of(log), 0)


def crowded_log(seed: int) -> Log:
    steered = SteeredLog(steer=unreliable(seed))
    steered.create_topic("orders", partitions=PARTITIONS)
    return steered.as_log()


def start_appenders(log: Log, seed: int) -> "list[Future[Any]]":
    def append(number: int) -> None:
        rng = random.Random(seed * APPENDERS + number)
        for _ in range(BURSTS):
            fill(log, "orders", rng.randrange(PARTITIONS), rng.choice([1, 1, 2, 9]))

    return [on_thread(partial(append, number)) for number in range(APPENDERS)]


def finish(log: Log, appenders: "list[Future[Any]]") -> None:
    """Append to each partition the record at which its readers stop."""
    for appender in appenders:
        appender.result(PATIENCE_S)
    for partition in range(PARTITIONS):
        assert log.append("orders", Event("stop"), partition=partition).is_settled


def reading(
    subscription: Subscription[Record], *, on_loop: bool
) -> Callable[[], dict[int, list[int]]]:
    """Return what reads until every partition has said stop, and gives the offsets."""
    found: dict[int, list[int]] = defaultdict(list)
    stopped: set[int] = set()

    def note(record: Record) -> bool:
        found[record.partition].append(record.offset)
        if record.kind == "stop":
            stopped.add(record.partition)
        return len(stopped) == PARTITIONS

    def read() -> dict[int, list[int]]:
        with subscription:
            for record in subscription:
                if note(record):
                    break
        return found

    async def read_on_loop() -> dict[int, list[int]]:
        async with asyncio.timeout(PATIENCE_S):
            with subscription:
                async for record in AsyncSubscription(subscription):
                    if note(record):
                        break
        return found

    return (lambda: asyncio.run(read_on_loop())) if on_loop else read


def check_consecutive(found: dict[int, list[int]], starts: Ends, ends: Ends, seed: int) -> None:
    expected = {n: list(range(starts[n], ends[n])) for n in range(PARTITIONS)}
    assert dict(found) == expected, f"seed={seed}"


def starts_of(subscription: Subscription[Record]) -> Ends:
    return {n: int(subscription.assignment.position(n)) for n in range(PARTITIONS)}


def ends_of(log: Log) -> Ends:
    return {n: int(log.marks("orders", n).high) for n in range(PARTITIONS)}
