"""Everything that a log stores for its users, as plain JSON values."""

from base64 import b64encode
from typing import Any

import pyarrow as pa

from strandline.log import Log
from strandline.values import Event, Record, Topic

Content = dict[str, Any]


def content_of(log: Log, tenants: tuple[str | None, ...]) -> Content:
    """Return the topics of these tenants with all that can be read of them."""
    return {
        "id": str(log.id),
        "topics": [
            _topic(log, topic, tenants)
            for tenant in tenants
            for internal in (False, True)
            for topic in log.topics(tenant=tenant, internal=internal)
        ],
    }


def _topic(log: Log, topic: Topic, tenants: tuple[str | None, ...]) -> Content:
    described = log.describe_topic(topic)
    settings = described.settings
    return {
        "name": topic.name,
        "tenant": topic.tenant,
        "id": str(topic.id),
        "created_at_us": described.created_at_us,
        "value_kind": str(settings.value_kind),
        "retention": [settings.retention_age_s, settings.retention_bytes],
        "size_bytes": described.size_bytes,
        "partitions": [_partition(log, topic, number) for number in range(settings.partitions)],
        "consumers": [
            [lag.tenant, lag.consumer, lag.partition, lag.cursor, lag.seen_at_us]
            for tenant in ((topic.tenant,) if topic.tenant else tenants)
            for lag in log.consumers(topic, tenant=tenant)
        ],
    }


def _partition(log: Log, topic: Topic, number: int) -> Content:
    marks = log.marks(topic, number)
    return {
        "low": marks.low,
        "high": marks.high,
        "epochs": [[each.number, str(each.id), each.start] for each in log.epochs(topic, number)],
        "records": [_record(record) for record in log.read(topic, number, marks.low)],
        "columns": sum(batch.num_rows for batch in log.read_batches(topic, number, marks.low)),
    }


def _record(record: Record) -> list[Any]:
    value = record.value
    shown: object
    if isinstance(value, Event):
        occurred = value.occurred_at
        shown = [
            value.kind,
            value.payload,
            dict(value.headers),
            None if occurred is None else occurred.isoformat(),
        ]
    elif isinstance(value, pa.RecordBatch):
        shown = [str(value.schema), value.to_pylist()]
    else:
        shown = b64encode(value).decode()
    return [record.offset, record.timestamp_us, record.key, record.tenant, shown]
