"""`engine.*`: our log on a server, beside the server's own client without a log."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from benchmarks import engine_tail
from benchmarks.append import PRODUCERS, contenders
from benchmarks.entry import Entry
from benchmarks.producing import batch_rate, single_rate, threads_rate
from benchmarks.sizes import Sizes
from benchmarks.stores import jetstream, kafka, postgres
from benchmarks.stores.store import Opening
from strandline.values import Durability
from tests.stores.jetstream import server as nats_server
from tests.stores.postgres import server as postgres_server
from tools.kafka_jars import are_there

DURABLE = Durability.DURABLE


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries of `engine.`."""
    beside: Mapping[str, Mapping[str, Opening]] = {
        "postgres": {"ours": postgres.our_log, "psycopg": postgres.BareTable},
        "jetstream": {"ours": jetstream.our_log, "nats-py": jetstream.BareStream},
        "kafka": {"ours": kafka.our_log, "confluent-kafka": kafka.BareTopic},
    }
    tails = {
        "postgres": engine_tail.postgres_entry(sizes),
        "jetstream": engine_tail.jetstream_entry(sizes),
        "kafka": engine_tail.kafka_entry(sizes),
    }
    missing = {
        "postgres": postgres_server.why_none(),
        "jetstream": nats_server.why_none(),
        "kafka": None if are_there() else "no jars, run python -m tools.kafka_jars",
    }
    return tuple(
        replace(entry, missing=missing[engine])
        for engine, openings in beside.items()
        for entry in (*_engine(engine, openings, sizes), tails[engine])
    )


def _engine(engine: str, openings: Mapping[str, Opening], sizes: Sizes) -> tuple[Entry, ...]:
    entry = partial(_entry, engine, openings)
    return (
        entry("single", 0.7, single_rate, sizes.singles_durable),
        entry("batch1000", 0.7, batch_rate, sizes.batches, sizes.batch_events),
        entry("sixteen", 1.0, threads_rate, PRODUCERS, sizes.producer_durable),
    )


def _entry(
    engine: str,
    openings: Mapping[str, Opening],
    name: str,
    bar: float,
    rate: Callable[..., float],
    *counts: int,
) -> Entry:
    (bare,) = openings.keys() - {"ours"}
    return Entry(
        name=f"engine.{engine}.{name}",
        unit="events/s",
        contenders=contenders(rate, openings, DURABLE, *counts),
        bars={bare: bar},
    )
