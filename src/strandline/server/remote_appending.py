"""Appends of remote logs over HTTP: checked again, and made in order. See design 0101."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
from starlette.responses import Response

from strandline.log import wire
from strandline.log.decide import is_lane
from strandline.log.draft import Draft, draft
from strandline.log.off_loop import in_thread
from strandline.log.store import Outcome, StoredTopic
from strandline.log.terms import owner
from strandline.server.bodies import check_count
from strandline.server.call import Call, by_size
from strandline.server.endpoint import Endpoint
from strandline.server.problems import problem_of
from strandline.server.remote_call import StorePort, message_of, port_answer, port_endpoint
from strandline.values import (
    CorruptError,
    Durability,
    Event,
    InvalidError,
    StrandlineError,
    Tenant,
    ValueKind,
    check_idempotency_key,
    check_producer_name,
)
from strandline.values.batches import decode_batch
from strandline.values.instants import datetime_from_us


@port_endpoint("append")
async def store_append(call: Call) -> Response:
    """For remote logs. Append to one partition, in order, and return the outcome of each."""
    body = await call.body()
    given = await by_size(body, message_of, wire.AppendCall, body)
    check_count(sum(len(each.drafts) for each in given.appends))
    port = call.port
    if not port.topics.is_known(given.topic_id):
        await in_thread(port.topics.by_id, call.caller, given.topic_id)
    topic, number = port.partition(call, given)
    port.topics.check_append(call.caller, topic.topic)
    bytes_max = call.settings.body_bytes_max
    about = (port, topic, number, given.appends, bytes_max)
    if all(
        each.tenant is None or port.quotas.is_free(Tenant(each.tenant)) for each in given.appends
    ):
        begun = await by_size(body, _begin_all, *about)
    else:
        begun = await in_thread(_begin_all, *about)
    outcomes = [
        await _ended(port, outcome, each)
        for outcome, each in zip(begun, given.appends, strict=True)
    ]
    return await by_size(body, port_answer, wire.AppendReturn(outcomes))


def _begin_all(
    port: StorePort,
    topic: StoredTopic,
    number: int,
    appends: Sequence[wire.WireAppend],
    bytes_max: int,
) -> list[Outcome | StrandlineError]:
    return [_begin(port, topic, number, each, bytes_max) for each in appends]


def _begin(
    port: StorePort, topic: StoredTopic, number: int, each: wire.WireAppend, bytes_max: int
) -> Outcome | StrandlineError:
    try:
        kind = topic.settings.value_kind
        drafts = [_draft(one, kind, bytes_max) for one in each.drafts]
        _check_terms(topic, each)
        request = wire.request_of(each, drafts)
        if request.tenant is not None:
            size_bytes = sum(one.size_bytes for one in drafts)
            port.quotas.admit(topic, request.tenant, len(drafts), size_bytes)
        level = _level(port, each)
        outcome: Outcome = port.store.append(
            topic, number, request, level, each.timeout_s, may_wait=False
        )
    except StrandlineError as error:
        port.topics.forget(topic.topic.id)
        return error
    return outcome


async def _ended(
    port: StorePort, outcome: Outcome | StrandlineError, each: wire.WireAppend
) -> wire.WireOutcome:
    try:
        if isinstance(outcome, StrandlineError):
            raise outcome
        level = _level(port, each)
        placed = await outcome.wait_on_loop(level, each.timeout_s)
    except StrandlineError as error:
        return wire.WireOutcome(problem=bytes(problem_of(error).body))
    reached = outcome.level or level
    originals = [(int(one.offset), one.timestamp_us) for one in placed.originals]
    return wire.WireOutcome(placed.offset, placed.timestamp_us, originals, int(reached))


def _level(port: StorePort, each: wire.WireAppend) -> Durability:
    try:
        return min(Durability(each.level), port.store.capabilities.durability_max)
    except ValueError as error:
        raise InvalidError("there is no such durability", level=each.level) from error


def _check_terms(topic: StoredTopic, each: wire.WireAppend) -> None:
    """Raise InvalidError for terms that a log would have refused."""
    owner(topic.topic, each.tenant)
    if not each.drafts:
        raise InvalidError("an append has values")
    if each.idempotency_key is not None:
        check_idempotency_key(each.idempotency_key)
    if each.producer is None:
        return
    if not is_lane(each.producer):
        check_producer_name(each.producer)
    rises = all(low < high for low, high in zip(each.sequences, each.sequences[1:], strict=False))
    if len(each.sequences) != len(each.drafts) or not rises or each.sequences[0] < 0:
        raise InvalidError(
            "each value needs a sequence, and these must rise", producer=each.producer
        )
    if each.idempotency_key is not None:
        raise InvalidError("pass a producer and sequence, or an idempotency key, not both")


def _draft(one: wire.WireDraft, kind: ValueKind, bytes_max: int) -> Draft:
    """Return a draft, checked like a value that is appended here."""
    body = one.body
    if kind is not ValueKind.EVENT:
        value = decode_batch(body.payload) if kind is ValueKind.BATCH else body.payload
        return draft(value, one.key, kind, bytes_max)
    if body.kind is None:
        raise InvalidError("this is a topic of events, and the value is none", kind=str(kind))
    try:
        payload = msgspec.json.decode(body.payload)
        headers = msgspec.json.decode(body.headers, type=dict[str, str])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidError("payload and headers are JSON", reason=str(error)) from None
    event = Event(
        body.kind, payload, key=one.key, headers=headers, occurred_at=_moment(body.occurred_at_us)
    )
    # Store the JSON exactly as it was sent, after the check.
    exact = Event.load(body.kind, body.payload, event.key, body.headers, body.occurred_at_us)
    return draft(exact, None, kind, bytes_max)


def _moment(us: int | None) -> datetime | None:
    try:
        return None if us is None else datetime_from_us(us)
    except CorruptError as error:
        raise InvalidError("this time lies outside the years 1 to 9999", us=us) from error


ENDPOINTS: tuple[Endpoint, ...] = (store_append,)
