"""Appending over HTTP."""

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec
from starlette.responses import Response

from strandline.log import AppendTerms, Log, Receipt
from strandline.log.off_loop import in_thread
from strandline.server.bodies import (
    CLOUD_EVENT,
    CLOUD_EVENTS,
    AppendedBytes,
    AppendedEvent,
    Values,
    values_of,
)
from strandline.server.call import Call, by_size
from strandline.server.endpoint import ARROW, JSON, NDJSON, OCTETS, endpoint
from strandline.server.problems import RequestError
from strandline.server.tokens import TokenScope
from strandline.values import Durability, DurabilityName, InvalidError, Topic, ValueKind
from strandline.values.arguments import check_seconds
from strandline.values.json_forms import moment

_MANY: Final = 256
_encode: Final = msgspec.json.Encoder().encode
_NAMES: Final[dict[Durability, Any]] = {each: str(each) for each in Durability}
_LEVELS: Final[dict[str | None, Durability]] = {str(each): each for each in Durability}


class AppendQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How to append."""

    durability: DurabilityName | None = None
    partition: int | None = None
    expected_offset: int | None = None
    timeout_s: float | None = None
    key: str | None = None
    """The key of each record without a key."""
    deliver_at: datetime | None = None
    """When groups and work queues get the events; a time with a zone."""


class AppendedRecord(msgspec.Struct):
    """Where a record is."""

    partition: int
    offset: int
    timestamp: str
    is_repeat: bool


class AppendAnswer(msgspec.Struct):
    """The outcome of an append."""

    durability: DurabilityName
    """The level that all of them have reached."""
    receipts: list[AppendedRecord]


_BODY: dict[str, Any] = {
    JSON: (AppendedEvent, AppendedBytes, list[AppendedEvent], list[AppendedBytes]),
    NDJSON: str,
    CLOUD_EVENT: dict[str, Any],
    CLOUD_EVENTS: list[dict[str, Any]],
    OCTETS: bytes,
    ARROW: bytes,
}


@endpoint(
    "POST",
    "/v1/topics/{topic}/records",
    TokenScope.APPEND,
    query=AppendQuery,
    body=_BODY,
    answers={JSON: AppendAnswer},
    status=201,
    statuses={200: "All of it had been appended before."},
)
async def append_records(call: Call) -> Response:
    """Append records, all of them or, for each partition, none.

    A repeat with the header Idempotency-Key, or with Producer-Id and Producer-Seq, returns
    the receipts of the original. `key` is the key of each record without one; 400 if a record
    has another.
    """
    query = call.query(AppendQuery)
    terms = _terms(call, query)
    body = await call.body()
    known = await call.topics.appended(call.caller, call.log, call.path("topic"))
    append = partial(_append_body, call, body, query.key, terms)
    try:
        answer = await append(*known)
    except (InvalidError, RequestError):
        # The topic may have been dropped since its lookup, and another created with its name.
        call.topics.forget(known[0])
        again = await call.topics.appended(call.caller, call.log, call.path("topic"))
        if again == known:
            raise
        return await append(*again)
    topic, kind = known
    if kind is ValueKind.EVENT and topic.tenant is None and query.key is None:
        call.at_once.remember(call, body, topic.name, terms)
    return answer


async def _append_body(  # noqa: PLR0917 - Bound one after the other.
    call: Call, body: bytes, key: str | None, terms: AppendTerms, topic: Topic, kind: ValueKind
) -> Response:
    decode = (body, call.request.headers, kind, key, call.settings.body_bytes_max)
    given = await by_size(body, values_of, *decode)
    with call.continued():
        if len(given.values) > _MANY:
            return await in_thread(_append_many, call.log.blocking, topic, kind, given, terms)
        return await _append(call, topic, kind, given, terms)


async def _append(
    call: Call, topic: Topic, kind: ValueKind, given: Values, terms: AppendTerms
) -> Response:
    log, (values, keys) = call.log, given
    # Appending by the topic's name is the fastest path, see design 0087.
    to = topic.name if topic.tenant is None else topic
    receipts: Any
    if not values:
        receipts = []
    elif kind is ValueKind.BATCH:
        scope = log.scope(topic.tenant)
        # `publish_many` takes all of these terms except the tenant, which the scope sets.
        receipts = await scope.publish_many(topic, values, keys=keys, **terms)  # type: ignore[misc]
    elif len(values) == 1:
        key = None if keys is None else keys[0]
        receipts = [(await log.append(to, values[0], key=key, **terms)).blocking]
    else:
        receipts = (await log.append_many(to, values, keys=keys, **terms)).blocking
    return _answer(receipts, log.durability_max)


def _append_many(
    log: Log, topic: Topic, kind: ValueKind, given: Values, terms: AppendTerms
) -> Response:
    """Append many values in a thread, because they would block the loop."""
    return _answer(append_values(log, topic, kind, given, terms), log.durability_max)


def append_values(
    log: Log, topic: Topic, kind: ValueKind, given: Values, terms: AppendTerms
) -> Iterable[Receipt]:
    """Append the values to a topic of this kind; blocks."""
    values, keys = given
    receipts: Any
    if kind is ValueKind.BATCH:
        receipts = log.scope(topic.tenant).publish_many(topic, values, keys=keys, **terms)  # type: ignore[misc] # As above.
    else:
        receipts = log.append_many(topic, values, keys=keys, **terms)
    found: Iterable[Receipt] = receipts
    return found


def _answer(receipts: Iterable[Receipt], durability_max: Durability) -> Response:
    placed: list[AppendedRecord] = []
    level, is_new, last_us, when = durability_max, False, -1, ""
    for each in receipts:
        us, is_repeat, reached = each.timestamp_us, each.is_repeat, each.level
        if us != last_us:
            last_us, when = us, moment(us) or ""
        placed.append(AppendedRecord(each.partition, each.offset, when, is_repeat))
        is_new = is_new or not is_repeat
        if reached is not None and reached < level:
            level = reached
    status = 201 if is_new or not placed else 200
    return Response(_encode(AppendAnswer(_NAMES[level], placed)), status, media_type=JSON)


def _terms(call: Call, query: AppendQuery) -> AppendTerms:
    headers = call.request.headers
    given: dict[str, Any] = {
        "durability": _LEVELS.get(query.durability),
        "partition": query.partition,
        "expected_offset": query.expected_offset,
        "timeout_s": None
        if query.timeout_s is None
        else check_seconds("timeout_s", query.timeout_s),
        "deliver_at": query.deliver_at,
        "idempotency_key": headers.get("idempotency-key"),
        "producer": headers.get("producer-id"),
    }
    if (sequence := headers.get("producer-seq")) is not None:
        if not sequence.isdecimal():
            raise InvalidError("Producer-Seq is a number from 0", value=sequence)
        given["sequence"] = int(sequence)
    terms: AppendTerms = {name: each for name, each in given.items() if each is not None}  # type: ignore[assignment] # By name.
    return terms


ENDPOINTS = (append_records,)
