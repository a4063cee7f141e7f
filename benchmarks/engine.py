"""`engine.*`: our log on a server, beside the server's own client without a log."""

from collections.abc import Callable, Mapping

from benchmarks.append import PRODUCERS, contenders
from benchmarks.entry import Entry
from benchmarks.producing import batch_rate, single_rate, threads_rate
from benchmarks.sizes import Sizes
from benchmarks.stores import kafka, postgres
from benchmarks.stores.store import Opening
from strandline.values import Durability
from tests.stores.postgres.server import why_none
from tools.kafka_jars import are_there

DURABLE = Durability.DURABLE

POSTGRES: Mapping[str, Opening] = {"ours": postgres.our_log, "psycopg": postgres.BareTable}
KAFKA: Mapping[str, Opening] = {"ours": kafka.our_log, "confluent-kafka": kafka.BareTopic}


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries of `engine.`; none of a server that cannot be started."""
    found: tuple[Entry, ...] = ()
    if why_none() is None:
        found += _entries("postgres", POSTGRES, "psycopg", sizes)
    if are_there():
        found += _entries("kafka", KAFKA, "confluent-kafka", sizes)
    return found


def _entries(
    engine: str, openings: Mapping[str, Opening], bare: str, sizes: Sizes
) -> tuple[Entry, ...]:
    def entry(name: str, bar: float, rate: Callable[..., float], *counts: int) -> Entry:
        return Entry(
            name=f"engine.{engine}.{name}",
            unit="events/s",
            contenders=contenders(rate, openings, DURABLE, *counts),
            bars={bare: bar},
        )

    return (
        entry("single", 0.7, single_rate, sizes.singles_durable),
        entry("batch1000", 0.7, batch_rate, sizes.batches, sizes.batch_events),
        entry("sixteen", 1.0, threads_rate, PRODUCERS, sizes.producer_durable),
    )
