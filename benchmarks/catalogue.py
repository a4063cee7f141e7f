"""Every entry, family by family, in the order in which they are measured and shown."""

from benchmarks import (
    append,
    beside_servers,
    bulk,
    consumer,
    coordinator,
    engine,
    footprint,
    growth,
    opening,
    predicate,
    replay,
    served_append,
    served_flight,
    served_tail,
    spark,
    spark_audit,
    spark_kafka,
    spark_large,
    spark_sink,
    tail_across,
    tail_inside,
    tier,
    trigger,
    trigger_dispatch,
    trigger_tail,
    typed,
    view,
)
from benchmarks.entry import Entry
from benchmarks.sizes import FULL, Sizes


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return every entry, with rounds of these sizes."""
    return (
        *coordinator.ENTRIES,
        *append.entries(sizes),
        *replay.entries(sizes),
        *tail_inside.entries(sizes),
        *tail_across.entries(sizes),
        *footprint.entries(sizes),
        *growth.entries(sizes),
        *bulk.entries(sizes),
        *opening.entries(sizes),
        *view.entries(sizes),
        *tier.entries(sizes),
        *trigger.ENTRIES,
        *consumer.entries(sizes),
        *predicate.entries(sizes),
        *trigger_dispatch.entries(sizes),
        *trigger_tail.entries(sizes),
        *typed.entries(sizes),
        *beside_servers.entries(sizes),
        *engine.entries(sizes),
        *served_append.entries(sizes),
        *served_flight.entries(sizes),
        *served_tail.entries(sizes),
        *spark.entries(sizes),
        *spark_sink.entries(sizes),
        *spark_audit.entries(sizes),
        *spark_large.entries(sizes),
        *spark_kafka.entries(sizes),
    )


ENTRIES = entries(FULL)
