"""`engine.*.tail`: from an append to a reader in another process, beside the bare client."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import nats
import psycopg
from confluent_kafka import Consumer, TopicPartition

import strandline as sl
from benchmarks.crew import crew
from benchmarks.entry import Contender, Entry, now
from benchmarks.events import Sample, samples
from benchmarks.latency import latencies_us, publish
from benchmarks.sizes import Sizes
from benchmarks.stores import jetstream, kafka, postgres
from benchmarks.stores.ours import TOPIC, OurLog
from strandline.values import Durability

DURABLE = Durability.DURABLE
#: Twice what the bare client takes.
BAR = 0.5

_decode = msgspec.json.Decoder(Sample).decode


def postgres_entry(sizes: Sizes) -> Entry:
    """Return `engine.postgres.tail`, beside NOTIFY in the transaction, LISTEN and SELECT."""
    return _entry(
        "postgres", {"ours": _ours_on_postgres, "listen": _listen}, sizes.tail_events, listen=BAR
    )


def jetstream_entry(sizes: Sizes) -> Entry:
    """Return `engine.jetstream.tail`, beside an ordered consumer of the stream."""
    return _entry(
        "jetstream",
        {"ours": _ours_on_jetstream, "consumer": _consumer},
        sizes.tail_events,
        consumer=BAR,
    )


def kafka_entry(sizes: Sizes) -> Entry:
    """Return `engine.kafka.tail`, beside a consumer of the partition."""
    ways = {"ours": _ours_on_kafka, "consumer": _kafka_consumer}
    return _entry("kafka", ways, sizes.tail_events, consumer=BAR)


def _entry(
    engine: str, ways: Mapping[str, Callable[[int], float]], events: int, **bars: float
) -> Entry:
    def contenders(scratch: Path) -> Mapping[str, Contender]:
        del scratch
        return {name: partial(way, events) for name, way in ways.items()}

    return Entry(name=f"engine.{engine}.tail", unit="µs", contenders=contenders, bars=bars)


def _delivered(
    append: Callable[[Sample], object], follow: Callable[..., None], where: str, events: int
) -> float:
    """Return the median latency of a reader in another process."""
    with crew(follow, [(where, events)]) as (member,):
        member.recv()
        begun = publish(append, samples(events))
        return median(latencies_us(begun, [member.recv()]))


# --- ours ---


def _ours_on_postgres(events: int) -> float:
    url = postgres.server().url(f"tail{next(postgres.NUMBERS)}")
    return _ours(url, OurLog(sl.open(url), DURABLE), events)


def _ours_on_jetstream(events: int) -> float:
    url = jetstream.server().url(f"tail{next(jetstream.NUMBERS)}")
    log = sl.open(url, system_url=jetstream.server().system_url)
    return _ours(url, OurLog(log, DURABLE), events)


def _ours_on_kafka(events: int) -> float:
    url = kafka.server().url(f"tail{next(kafka.NUMBERS)}")
    return _ours(url, OurLog(sl.open(url), DURABLE), events)


def _ours(url: str, log: OurLog, events: int) -> float:
    with closing(log):
        return _delivered(log.append, _follow_ours, url, events)


def _follow_ours(parent: Connection, url: str, events: int) -> None:
    came = []
    with sl.open(url, mode="read") as log, sl.subscribe(log, TOPIC) as subscription:
        parent.send("ready")
        for record in subscription:
            came.append(now())
            if record.offset == events - 1:
                break
    parent.send(came)


# --- PostgreSQL without a log ---


def _listen(events: int) -> float:
    with closing(postgres.BareTable(Path(), DURABLE)) as table:
        return _delivered(table.append_and_notify, _follow_table, table.name, events)


def _follow_table(parent: Connection, where: str, events: int) -> None:
    url, table = where.split(" ")
    came: list[float] = []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"LISTEN {table}")
        parent.send("ready")
        select: Any = (
            f"SELECT id, kind, key, payload, headers, occurred_at_us FROM {table}"  # noqa: S608 - Ours.
            " WHERE id > %s ORDER BY id"
        )
        last = 0
        while len(came) < events:
            for _ in connection.notifies(stop_after=1):
                pass
            for row in connection.execute(select, (last,)).fetchall():
                last = row[0]
                msgspec.json.decode(row[3])
                came.append(now())
    parent.send(came)


# --- JetStream without a log ---


def _consumer(events: int) -> float:
    with closing(jetstream.BareStream(Path(), DURABLE)) as stream:
        where = f"{jetstream.server().url()} {stream.subject}"
        return _delivered(stream.append, follow_stream, where, events)


def follow_stream(parent: Connection, where: str, events: int) -> None:
    """Receive so many messages of a subject, and send when each of them came."""
    url, subject = where.split(" ")

    async def follow() -> list[float]:
        came: list[float] = []
        client = await nats.connect(url)
        subscription = await client.jetstream().subscribe(subject, ordered_consumer=True)
        parent.send("ready")
        while len(came) < events:
            message = await subscription.next_msg(timeout=60)
            _decode(message.data)
            came.append(now())
        await client.close()
        return came

    parent.send(asyncio.run(follow()))


# --- Kafka without a log ---


def _kafka_consumer(events: int) -> float:
    with closing(kafka.BareTopic(Path(), DURABLE)) as topic:
        return _delivered(topic.append, _follow_topic, topic.name, events)


def _follow_topic(parent: Connection, where: str, events: int) -> None:
    address, topic = where.split(" ")
    came: list[float] = []
    with closing(Consumer({"bootstrap.servers": address, "group.id": "tail"})) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        # Connected before the first message is sent.
        consumer.get_watermark_offsets(TopicPartition(topic, 0), 60)
        parent.send("ready")
        while len(came) < events:
            message = consumer.poll(60)
            assert message is not None
            assert message.error() is None, message.error()
            msgspec.json.decode(message.value() or b"")
            came.append(now())
    parent.send(came)
