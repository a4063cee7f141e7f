"""`consumer.*`: records fetched and acked, and work that a group shares."""

import time
from collections.abc import Mapping
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from shutil import which

import strandline as sl
from benchmarks.crew import crew
from benchmarks.entry import Contender, Entry, now
from benchmarks.producing import fresh
from benchmarks.redis_group import redis_rate
from benchmarks.sizes import Sizes

TOPIC = "orders"
PARTITIONS = 8
ACKED_TOGETHER = 100
#: What the work on a record waits for, of a group whose work waits.
WORK_S = 0.002


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries: one consumer, durable acks, a group, and Redis beside it."""
    return (
        Entry(
            name="consumer.fetch",
            unit="records/s",
            contenders=partial(_cumulative, sizes.consumer_records),
            bars={"50,000/s": 1.0},
        ),
        Entry(
            name="consumer.ack.hundred",
            unit="records/s",
            contenders=partial(_durable, sizes.consumer_acked),
            bars={"5,000/s": 1.0, **({"redis": 1.0} if which("redis-server") else {})},
        ),
        Entry(
            name="consumer.group.four",
            unit="records/s",
            contenders=partial(_shared, sizes.consumer_shared, sizes.four),
            bars={"one": 2.0 if sizes.four > 2 else 0.0},
        ),
    )


def _cumulative(records: int, scratch: Path) -> Mapping[str, Contender]:
    return {
        "ours": partial(_rate, records, scratch, commit_every=records),
        "50,000/s": lambda: 50_000.0,
    }


def _durable(records: int, scratch: Path) -> Mapping[str, Contender]:
    contenders: dict[str, Contender] = {
        "ours": partial(_rate, records, scratch),
        "5,000/s": lambda: 5_000.0,
    }
    if which("redis-server"):
        contenders["redis"] = partial(redis_rate, records, ACKED_TOGETHER, scratch)
    return contenders


def _rate(records: int, scratch: Path, commit_every: int | None = None) -> float:
    """Return how many records a second one consumer fetches and acks, up to the last of each."""
    most = ACKED_TOGETHER if commit_every is None else 500
    with fresh(scratch) as path, sl.open(f"file:{path}") as log:
        _fill(log, records, 1)
        with log.consumer(TOPIC, "billing", commit_every=commit_every) as consumer:
            started, done = now(), 0
            while done < records:
                found = consumer.fetch(most, timeout_s=60)
                consumer.ack(found[-1], up_to=True)
                done += len(found)
            consumer.commit()
            return records / (now() - started)


def _shared(records: int, members: int, scratch: Path) -> Mapping[str, Contender]:
    return {
        "ours": partial(_group_rate, records, members, scratch),
        "one": partial(_group_rate, records, 1, scratch),
    }


def _group_rate(records: int, members: int, scratch: Path) -> float:
    """Return how many records a second so many processes handle whose work waits."""
    with fresh(scratch) as path, sl.open(f"file:{path}") as log:
        log.create_topic(TOPIC, partitions=PARTITIONS)
        with crew(_work, [(str(path),)] * members) as lines:
            for line in lines:
                line.recv()
            while len({each.member for each in log.consumers(TOPIC)}) < members:
                time.sleep(0.01)
            started = now()
            _append(log, records, PARTITIONS)
            while sum(each.lag for each in log.consumers(TOPIC)):
                time.sleep(0.005)
            rate = records / (now() - started)
            for line in lines:
                line.send("end")
        return rate


def _work(line: Connection, path: str) -> None:
    with sl.open(f"file:{path}") as log, log.consumer(TOPIC, "billing") as consumer:
        line.send("started")
        while not line.poll():
            for delivery in consumer.fetch(10, timeout_s=0.05):
                time.sleep(WORK_S)
                consumer.ack(delivery)


def _fill(log: sl.Log, records: int, partitions: int) -> None:
    log.create_topic(TOPIC, partitions=partitions)
    _append(log, records, partitions)


def _append(log: sl.Log, records: int, partitions: int) -> None:
    share = -(-records // partitions)
    for partition in range(partitions):
        for start in range(partition * share, min(records, (partition + 1) * share), 1000):
            end = min(start + 1000, records, (partition + 1) * share)
            events = [sl.Event("placed", {"number": number}) for number in range(start, end)]
            log.append_many(TOPIC, events, partition=partition)
