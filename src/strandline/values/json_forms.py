"""Values of a log as JSON, for `--json` and the server. Names and meanings are stable."""

import base64
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec

from strandline.values.description import (
    ConsumerLag,
    LogDescription,
    TopicDescription,
    TrimReport,
)
from strandline.values.event import Event
from strandline.values.json_rows import jsonable, rows_of
from strandline.values.proof import ProofReport
from strandline.values.quota import QuotaUsage
from strandline.values.record import Record

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(us: int | None) -> str | None:
    """Return a time in ISO 8601, in UTC, to the microsecond."""
    if us is None:
        return None
    second, rest = divmod(us, 1_000_000)
    return f"{_second(second)}.{rest:06d}Z"


@lru_cache(maxsize=1024)
def _second(since_epoch: int) -> str:
    found = _EPOCH + timedelta(seconds=since_epoch)
    return found.isoformat(timespec="seconds").removesuffix("+00:00")


def record_json(record: Record) -> dict[str, object]:
    """Return a record; its payload is embedded as JSON."""
    fields: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": moment(record.timestamp_us),
        "key": record.key,
        "tenant": record.tenant,
    }
    value = record.value
    if isinstance(value, Event):
        return {
            **fields,
            "kind": value.kind,
            "payload": msgspec.Raw(value.payload_json),
            "headers": dict(value.headers),
            "occurred_at": moment(value.occurred_at_us),
        }
    if isinstance(value, bytes):
        return {**fields, "value": base64.b64encode(value).decode()}
    return {**fields, "rows": jsonable(rows_of(value))}


def topic_json(found: TopicDescription) -> dict[str, object]:
    """Return the current state of a topic."""
    settings = found.settings
    return {
        "name": found.topic.name,
        "tenant": found.topic.tenant,
        "id": str(found.topic.id),
        "kind": str(settings.value_kind),
        "created_at": moment(found.created_at_us),
        "retention_age_s": settings.retention_age_s,
        "retention_bytes": settings.retention_bytes,
        "limit_bytes": settings.limit_bytes,
        "proof": settings.proof,
        "payload_schema": settings.shown_payload_schema(),
        "source": settings.source,
        "records": found.records,
        "size_bytes": found.size_bytes,
        "partitions": [
            {"partition": number, "low": marks.low, "high": marks.high, "durable": marks.durable}
            for number, marks in enumerate(found.marks)
        ],
    }


def retention_json(found: TopicDescription) -> dict[str, object]:
    """Return the retention of a topic, and its last run."""
    settings = found.settings
    kept = {
        "topic": found.topic.name,
        "tenant": found.topic.tenant,
        "retention_age_s": settings.retention_age_s,
        "retention_bytes": settings.retention_bytes,
        "limit_bytes": settings.limit_bytes,
    }
    status = found.retention
    if status is None:
        unknown = dict.fromkeys(("ran_at", "removed", "pid", "host", "until"))
        return {**kept, **unknown, "held": []}
    return {
        **kept,
        "ran_at": moment(status.ran_at_us),
        "removed": status.removed,
        "pid": status.pid,
        "host": status.host,
        "until": moment(status.until_us),
        "held": [
            {"partition": each.partition, "offset": each.offset, "consumers": list(each.consumers)}
            for each in status.held
        ],
    }


def log_json(found: LogDescription) -> dict[str, object]:
    """Return the current state of a log."""
    return {
        "id": str(found.log_id),
        "backend": found.backend,
        "location": found.location,
        "durability_max": str(found.durability_max),
        "topics": found.topics,
        "partitions": found.partitions,
        "records": found.records,
        "size_bytes": found.size_bytes,
    }


def lag_json(lag: ConsumerLag) -> dict[str, object]:
    """Return the progress of a consumer in a partition."""
    return {
        "consumer": lag.consumer,
        "tenant": lag.tenant,
        "partition": lag.partition,
        "cursor": lag.cursor,
        "lag": lag.lag,
        "lag_s": lag.lag_s,
        "trend": lag.trend,
        "seen_at": moment(lag.seen_at_us),
        "is_live": lag.is_live,
        "holds_retention": lag.holds_retention,
        "member": lag.member,
        "held_since": moment(lag.held_since_us),
        "generation": lag.generation,
        "reason": lag.reason,
    }


def trim_json(report: TrimReport) -> dict[str, object]:
    """Return the result of a trim."""
    return {
        "partition": report.partition,
        "removed": report.removed,
        "remaining": report.remaining,
        "low": report.low,
        "held_at": report.held_at,
        "latest": report.latest,
        "is_released": report.is_released,
    }


def quota_json(usage: QuotaUsage) -> dict[str, object]:
    """Return the quota of a tenant, and its use."""
    quota = usage.quota
    return {
        "tenant": usage.tenant,
        "bytes": usage.bytes,
        "bytes_max": quota.bytes_max,
        "topics": usage.topics,
        "topics_max": quota.topics_max,
        "records_per_s": quota.records_per_s,
        "bytes_per_s": quota.bytes_per_s,
    }


def proof_json(topic: str, tenant: str | None, report: ProofReport) -> dict[str, object]:
    """Return the result of a check of a partition."""
    return {
        "topic": topic,
        "tenant": tenant,
        "partition": report.partition,
        "start": report.start,
        "end": report.end,
        "records": report.records,
        "erased": report.erased,
        "is_proved": report.is_proved,
        "is_sound": report.is_sound,
        "head": None if report.head is None else msgspec.Raw(report.head.to_json()),
        "findings": [{"offset": each.offset, "reason": each.reason} for each in report.findings],
    }
