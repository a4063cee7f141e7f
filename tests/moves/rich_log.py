"""A log with every kind of content, and what a copy of it must have."""

from pathlib import Path
from typing import Any

import pyarrow as pa

import strandline as sl


def fill(log: sl.Log) -> None:
    """Write events, bytes and batches, with identities, tenants, a proof and consumers."""
    log.create_topic("orders", partitions=2, proof=True, metadata={"team": "shop"})
    for number in range(20):
        log.append("orders", sl.Event("placed", {"n": number}, key=f"k{number % 3}"))
    log.append_many("orders", [sl.Event("bulk", {"n": n}) for n in range(30)], partition=1)
    log.append_many(
        "orders", [sl.Event("keyed", {"n": n}) for n in range(3)], partition=0, idempotency_key="k"
    )
    for number in range(5):
        log.append("orders", sl.Event("p", {}), partition=0, producer="till", sequence=number * 2)
    log.create_topic("raw", value_kind="bytes", tenant="acme")
    raw = log.topic("raw", tenant="acme")
    log.append(raw, b"first", idempotency_key="early")
    log.append_many(raw, [b"x" * n for n in range(1, 10)], producer="sensor", sequence=7)
    log.create_topic("tables", value_kind="batch")
    log.append("tables", pa.record_batch({"a": [1, 2, 3]}))
    log.create_topic("empty", retention_age_s=3600)
    log.register("orders", "billing", {0: 3, 1: 0})
    log.ack("orders", "billing", 0, 5)
    log.register(raw, "audit", {0: 2}, tenant="acme")


def trim_some(log: sl.Log) -> None:
    """Trim past what has identities."""
    raw = log.topic("raw", tenant="acme")
    log.trim(raw, 0, 4, force=True)
    log.trim("orders", 1, 7, force=True)


def all_topics(log: sl.Log) -> list[Any]:
    """Return the topics of every tenant."""
    return [topic for tenant in (None, *log.tenants()) for topic in log.topics(tenant=tenant)]


def content(log: sl.Log) -> Any:
    """Return everything that a copy must have, in a form that can be compared."""
    found: dict[Any, Any] = {}
    for topic in all_topics(log):
        described = log.describe_topic(topic)
        for partition in range(described.settings.partitions):
            marks = log.marks(topic, partition)
            records = [
                (r.offset, r.timestamp_us, r.key, r.tenant, shown(r.value))
                for r in log.read(topic, partition, marks.low)
            ]
            head = log.proof_head(topic, partition) if described.settings.proof else None
            found[topic.id, partition] = (marks.low, marks.high, records, head)
        consumers = [
            (each.consumer, each.tenant, each.partition, each.cursor)
            for tenant in (None, "acme")
            if tenant is None or topic.tenant in (None, tenant)
            for each in log.consumers(topic, tenant=tenant)
        ]
        found[topic.id, "about"] = (topic, described.settings, described.created_at_us, consumers)
    return log.id, found


def shown(value: Any) -> Any:
    """Return a value in a form that can be compared."""
    return value.to_pydict() if isinstance(value, pa.RecordBatch) else value


def new_source(folder: Path, scheme: str) -> str:
    """Make a full log; return its URL."""
    url = f"{scheme}:{folder / 'source'}"
    with sl.open(url) as log:
        fill(log)
    return url
