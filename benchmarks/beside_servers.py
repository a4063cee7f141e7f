"""`servers.*`: a `file:` log beside Redis Streams and NATS JetStream, each on this machine.

For *written*, data is in the page cache: Redis syncs once a second, NATS every two minutes. For
*durable*, each of them syncs before it answers.
"""

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

from benchmarks.append import PRODUCERS, contenders
from benchmarks.crew import crew
from benchmarks.engine_tail import follow_stream
from benchmarks.entry import Contender, Entry, now
from benchmarks.events import samples
from benchmarks.latency import latencies_us, publish
from benchmarks.producing import batch_rate, fresh, single_rate, threads_rate
from benchmarks.sizes import Sizes
from benchmarks.stores import jetstream, ours, redis
from benchmarks.stores.store import Opening
from benchmarks.tail_across import follow_ours
from strandline.values import Durability
from tests.stores.jetstream import server as nats_server

WRITTEN, DURABLE = Durability.WRITTEN, Durability.DURABLE

Tail = Callable[[int, Path], float]
"""Returns the median latency of a reader of so many events."""


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries of `servers.`."""
    missing = redis.why_none() or nats_server.why_none()
    servers: dict[str, Opening] = {"redis": redis.RedisStream, "jetstream": jetstream.BareStream}
    followers: dict[str, Tail] = {
        "ours": _ours_tail,
        "redis": _redis_tail,
        "jetstream": _jetstream_tail,
    }
    entry = partial(_entry, missing, {"ours": ours.shared, **servers})
    batches = sizes.batches, sizes.batch_events
    return (
        entry("single.written", single_rate, WRITTEN, sizes.singles_durable),
        entry("single.durable", single_rate, DURABLE, sizes.singles_durable),
        entry("batch1000.written", batch_rate, WRITTEN, *batches),
        entry("batch1000.durable", batch_rate, DURABLE, *batches),
        entry("sixteen.written", threads_rate, WRITTEN, PRODUCERS, sizes.producer_durable),
        entry("sixteen.durable", threads_rate, DURABLE, PRODUCERS, sizes.producer_durable),
        Entry(
            name="servers.tail",
            unit="µs",
            contenders=partial(_tails, followers, sizes.tail_events),
            bars=dict.fromkeys(servers, 1.0),
            missing=missing,
        ),
    )


def _entry(
    missing: str | None,
    openings: Mapping[str, Opening],
    name: str,
    rate: Callable[..., float],
    durability: Durability,
    *counts: int,
) -> Entry:
    return Entry(
        name=f"servers.{name}",
        unit="events/s",
        contenders=contenders(rate, openings, durability, *counts),
        bars=dict.fromkeys(openings.keys() - {"ours"}, 1.0),
        missing=missing,
    )


# --- from an append to a reader in another process ---


def _tails(followers: Mapping[str, Tail], events: int, scratch: Path) -> Mapping[str, Contender]:
    return {name: partial(each, events, scratch) for name, each in followers.items()}


def _ours_tail(events: int, scratch: Path) -> float:
    return _delivered(ours.shared, follow_ours, events, scratch)


def _redis_tail(events: int, scratch: Path) -> float:
    return _delivered(redis.RedisStream, _follow_redis, events, scratch)


def _delivered(opening: Opening, follow: Callable[..., None], events: int, scratch: Path) -> float:
    with fresh(scratch) as path, closing(opening(path, WRITTEN)) as store:
        store.append(samples(1)[0])
        with crew(follow, [(path, events)]) as (member,):
            member.recv()
            begun = publish(store.append, samples(events))
            return median(latencies_us(begun, [member.recv()]))


def _follow_redis(parent: Connection, path: Path, events: int) -> None:
    came: list[float] = []
    with closing(redis.RedisConnection(redis.socket_at(path))) as connection:
        read_after = partial(connection.call, "XREAD", "BLOCK", "60000", "STREAMS", redis.STREAM)
        last = read_after(b"0")[0][1][0][0]
        parent.send("ready")
        while len(came) < events:
            read = read_after(last)
            for number, _ in read[0][1]:
                came.append(now())
                last = number
    parent.send(came)


def _jetstream_tail(events: int, scratch: Path) -> float:
    del scratch
    with closing(jetstream.BareStream(Path(), WRITTEN)) as stream:
        where = f"{stream.server.url()} {stream.subject}"
        with crew(follow_stream, [(where, events)]) as (member,):
            member.recv()
            begun = publish(stream.append, samples(events))
            return median(latencies_us(begun, [member.recv()]))
