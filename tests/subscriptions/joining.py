"""Readers that join, leave and change their partitions while others append: seeded, in threads."""

import asyncio
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

from strandline.log import Log
from strandline.subscriptions import AsyncSubscription, Subscription, pages, subscribe
from strandline.values import EARLIEST, LATEST, Event, Record
from tests.subscriptions.doubles import PATIENCE_S, SteeredLog, fill, unreliable
from tests.threads import on_thread

APPENDERS = 3
BURSTS = 60
PARTITIONS = 3
Ends = dict[int, int]


@contextmanager
def eager_threads() -> Iterator[None]:
    """Switch threads after a few steps, so that bursts of appends and reads interleave."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    # Many hints are dropped here; waiting a second for each would take long.
    with mock.patch.object(pages, "POLL_S", 0.01):
        yield
    sys.setswitchinterval(interval_s)


def run(seed: int) -> None:
    """Run each kind of reader with a seed."""
    with eager_threads():
        join_at_any_moment(seed)
        mix_changes(seed)
        hand_over(seed)


def join_at_any_moment(seed: int) -> None:
    """Have three appenders and six readers, with hints that are lost, repeated and late."""
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


def mix_changes(seed: int) -> None:
    """Add and remove partitions; each generation is strictly consecutive from its start."""
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


def hand_over(seed: int) -> None:
    """Remove and add partitions from another thread than the reader's."""
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
