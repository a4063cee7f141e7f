"""Processes that read while others write: each reports its start and its records."""

import asyncio
import random
import threading
import time

import strandline as sl
from strandline.log import Log
from strandline.values import Durability
from tests.processes.report import Report
from tests.processes.stores import open_store
from tests.processes.workloads import CONSUMER, PARTITIONS, TOPIC, Writer

STOP = "stop"
PATIENCE_S = 30.0
JOINING_S = 0.15

Given = tuple[int, int, str, int]


def write(report: Report, url: str, producer: str, seed: int) -> None:
    """Append to random partitions, in bursts with rests between, until killed."""
    rng = random.Random(seed)
    following = 0
    with open_store(url) as log:
        report.say("ready")
        while True:
            burst = range(following, following + rng.choice([1, 1, 2, 8]))
            events = [sl.Event(producer, {"n": number}) for number in burst]
            log.append_many(TOPIC, events, partition=rng.randrange(PARTITIONS))
            following = burst.stop
            if rng.random() < 0.5:
                time.sleep(rng.uniform(0, 0.003))


def stop(report: Report, url: str) -> None:
    """Append to each partition the record at which its readers stop."""
    with open_store(url) as log:
        for partition in range(PARTITIONS):
            log.append(TOPIC, sl.Event(STOP, {"n": partition}), partition=partition)
        report.report_contents(log, TOPIC)


def join(report: Report, url: str, seed: int, count: int) -> None:
    """Join `count` times at random moments, half of them on threads and half on a loop."""
    rng = random.Random(seed)
    log = open_store(url)
    threads = [
        threading.Thread(target=_join_thread, args=(report, log, rng.getrandbits(32)))
        for _ in range(count // 2)
    ]
    for thread in threads:
        thread.start()
    asyncio.run(_join_loop(report, log, [rng.getrandbits(32) for _ in range(count - count // 2)]))
    for thread in threads:
        thread.join(PATIENCE_S)
    log.close()


def _subscribed(log: Log, rng: random.Random) -> tuple[sl.Subscription[sl.Record], dict[int, int]]:
    start = rng.choice([sl.EARLIEST, sl.LATEST, None])
    read_ahead = rng.choice([1, 3, 128])
    if start is None:
        starts = {p: rng.randint(0, log.marks(TOPIC, p).high) for p in range(PARTITIONS)}
        joined = sl.subscribe(log, TOPIC, start=starts, read_ahead=read_ahead)
    else:
        joined = sl.subscribe(log, TOPIC, start=start, read_ahead=read_ahead)
    return joined, {p: joined.assignment.position(p) for p in range(PARTITIONS)}


def _join_thread(report: Report, log: Log, seed: int) -> None:
    rng = random.Random(seed)
    time.sleep(rng.uniform(0, JOINING_S))
    joined, starts = _subscribed(log, rng)
    rest_s = rng.choice([0.0, 0.0, 0.001])
    given: list[Given] = []
    report.say("subscribed")
    with joined:
        for record in joined:
            given.append(_given(record))
            if _is_over(given):
                break
            if rest_s:
                time.sleep(rest_s)
    report.say("joined", "for", seed, starts, given)


async def _join_loop(report: Report, log: Log, seeds: list[int]) -> None:
    async with asyncio.TaskGroup() as group:
        for seed in seeds:
            group.create_task(_join_task(report, log, seed))


async def _join_task(report: Report, log: Log, seed: int) -> None:
    """Half of these are cancelled while they wait, again and again, and continue."""
    rng = random.Random(seed)
    await asyncio.sleep(rng.uniform(0, JOINING_S))
    joined, starts = _subscribed(log, rng)
    is_impatient = rng.random() < 0.5
    given: list[Given] = []
    report.say("subscribed")
    with joined:
        while not _is_over(given):
            if is_impatient:
                step = asyncio.ensure_future(anext(sl.AsyncSubscription(joined)))
                done, _ = await asyncio.wait([step], timeout=rng.uniform(0, 0.002))
                if not done and step.cancel():
                    await asyncio.wait([step])
                if step.cancelled():
                    continue
                given.append(_given(step.result()))
            else:
                given.append(_given(await anext(sl.AsyncSubscription(joined))))
    report.say("joined", "async for", seed, starts, given)


def _given(record: sl.Record) -> Given:
    return record.partition, record.offset, record.kind, record.payload["n"]


def _is_over(given: list[Given]) -> bool:
    return bool(given) and given[-1][2] == STOP and sum(g[2] == STOP for g in given) == PARTITIONS


# --- consumers ---


def consume(report: Report, url: str) -> None:
    """Say what is delivered, then that it will be acked, then that it was; for ever."""
    with open_store(url) as log, sl.Consumer(log, TOPIC, CONSUMER) as consumer:
        for partition in range(PARTITIONS):
            report.say("cursor", partition, log.cursor(TOPIC, CONSUMER, partition) or 0)
        while True:
            delivery = consumer.next(PATIENCE_S)
            assert delivery is not None
            record = delivery.record
            report.say("delivered", record.partition, record.offset)
            report.say("acking", record.partition, record.offset + 1)
            report.say("acked", record.partition, consumer.ack(record))


def feed(report: Report, url: str, count: int) -> None:
    """Append so many records to each partition."""
    with open_store(url) as log:
        writer = Writer(report, log, "feeder", 0)
        for number in range(count * PARTITIONS):
            assert writer.append(number % PARTITIONS, 1, Durability.WRITTEN, identified=False)
