"""Where records go that a consumer could not deal with: an event topic beside their own."""

import base64

import pyarrow as pa

from strandline.log import Log
from strandline.values import Event, Offset, Record, Topic, check_topic_name


def parking_name(topic: Topic) -> str:
    """Return the name of the parking topic; InvalidError if it would be no name.

    It is an internal one, which a log that is open for consuming may create, too.
    """
    return check_topic_name(f"__strandline.parked.{topic.name}", internal=True)


def park(
    log: Log,
    topic: Topic,
    record: Record,
    consumer: str,
    *,
    deliveries: int,
    reason: str,
    replay: int | None = None,
) -> Offset:
    """Append the record to the parking topic, once however often this is called.

    Once more for each `replay`, a number that tells the replays of the record apart.

    It is as durable as the log can make it when this returns where it is, since the
    consumer's cursor passes the original next.

    An event keeps its kind, payload, key, headers and time. Bytes, and a batch as an
    Arrow stream, become the payload in base64, with the kind `parked`. Headers that
    begin with `strandline.` say where it came from and why.
    """
    parking = log.create_topic(parking_name(topic), tenant=topic.tenant, internal=True)
    identity = f"{topic.id}/{record.partition}/{record.offset}/{consumer}"
    if replay is not None:
        identity = f"{identity}/{replay}"
    origin = {
        "strandline.topic": topic.name,
        "strandline.partition": str(record.partition),
        "strandline.offset": str(record.offset),
        "strandline.consumer": consumer,
        "strandline.deliveries": str(deliveries),
        "strandline.reason": reason,
    }
    receipt = log.append(
        parking,
        _parked(record, origin),
        tenant=record.tenant,
        durability=log.durability_max,
        idempotency_key=identity,
    )
    return receipt.offset


def _parked(record: Record, origin: dict[str, str]) -> Event:
    value = record.value
    if isinstance(value, Event):
        return Event(
            value.kind,
            value.payload,
            key=value.key,
            headers={**value.headers, **origin},
            occurred_at=value.occurred_at,
        )
    encoded = value if isinstance(value, bytes) else _stream(value)
    payload = base64.b64encode(encoded).decode("ascii")
    return Event("parked", payload, key=record.key, headers=origin)


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())
