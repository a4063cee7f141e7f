"""Consumers and dead letters over HTTP."""

from typing import Any

import msgspec
from starlette.responses import Response

from strandline.log.off_loop import in_thread
from strandline.server.call import Call
from strandline.server.endpoint import JSON, endpoint, json_answer
from strandline.server.places import offset_of
from strandline.server.tokens import TokenScope
from strandline.subscriptions.redriving import DeadLetter, dead_letters, redrive
from strandline.values import ConsumerLag, InvalidError, Topic, check_consumer_name
from strandline.values.json_forms import lag_json

_CONSUMERS = "/v1/topics/{topic}/consumers"
_CONSUMER = f"{_CONSUMERS}/{{consumer}}"
_OURS = "strandline."
_LETTERS_MAX = 1000


class ShownLag(msgspec.Struct):
    """How far a consumer is in a partition."""

    consumer: str
    tenant: str | None
    partition: int
    cursor: int
    lag: int
    lag_s: float | None
    trend: float | None
    seen_at: str
    is_live: bool
    holds_retention: bool
    member: str | None
    held_since: str | None
    generation: int
    reason: str


class ShownConsumers(msgspec.Struct):
    """The consumers of a topic."""

    topic: str
    consumers: list[ShownLag]


class ShownLags(msgspec.Struct):
    """The consumers of every topic that the caller sees."""

    topics: list[ShownConsumers]


class AckBody(msgspec.Struct, forbid_unknown_fields=True):
    """By partition, one past the last offset that was handled."""

    ends: dict[str, int]


class SeekBody(msgspec.Struct, forbid_unknown_fields=True):
    """By partition, the next offset to handle, or a place: earliest, latest, -n, a time."""

    places: dict[str, int | str]


class DeadLettersQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters."""

    consumer: str | None = None
    after: int = -1
    limit: int = 100


class RedriveBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters to redrive; `dry_run` shows them, and redrives nothing."""

    consumer: str | None = None
    offsets: list[int] | None = None
    dry_run: bool = True


class ShownDeadLetter(msgspec.Struct):
    """A record that a consumer could not handle."""

    offset: int
    consumer: str
    deliveries: int
    reason: str
    partition: int
    record_offset: int
    kind: str
    key: str | None
    payload: Any
    headers: dict[str, str]
    is_redriven: bool


class ShownDeadLetters(msgspec.Struct):
    """Dead letters of a topic; `next` is to be passed as `after`, and null on the last page."""

    topic: str
    dead_letters: list[ShownDeadLetter]
    next: int | None = None


class ShownRedrive(msgspec.Struct):
    """What was redriven, or with `dry_run` what would be."""

    topic: str
    dry_run: bool
    dead_letters: list[ShownDeadLetter]


@endpoint("GET", _CONSUMERS, TokenScope.READ, answers={JSON: ShownConsumers})
async def list_consumers(call: Call) -> Response:
    """List the consumers of a topic, with how far behind each one is."""
    topic = await call.topic()
    return json_answer(_shown(topic, await _lags(call, topic)))


@endpoint("GET", _CONSUMER, TokenScope.READ, answers={JSON: ShownConsumers})
async def get_consumer(call: Call) -> Response:
    """Return how far a consumer is in each partition. 404 if there is none."""
    topic, name = await call.topic(), check_consumer_name(call.path("consumer"))
    return json_answer(await _consumer(call, topic, name))


@endpoint(
    "POST",
    f"{_CONSUMER}/ack",
    TokenScope.CONSUME,
    body={JSON: AckBody},
    answers={JSON: ShownConsumers},
)
async def ack_consumer(call: Call) -> Response:
    """Acknowledge everything before an offset in each partition that is named."""
    topic, name = await call.topic(), check_consumer_name(call.path("consumer"))
    given = await call.json(AckBody)
    for number, end in _numbered(given.ends):
        await call.log.ack(topic, name, number, end, tenant=call.caller.tenant)
    return json_answer(await _consumer(call, topic, name))


@endpoint(
    "POST",
    f"{_CONSUMER}/seek",
    TokenScope.CONSUME,
    body={JSON: SeekBody},
    answers={JSON: ShownConsumers},
)
async def seek_consumer(call: Call) -> Response:
    """Put a consumer to a place in each partition that is named; it is made if there is none."""
    topic, name = await call.topic(), check_consumer_name(call.path("consumer"))
    given = await call.json(SeekBody)
    log = call.log
    wanted = [
        (number, await in_thread(offset_of, log.blocking, topic, number, str(place)))
        for number, place in _numbered(given.places)
    ]
    for number, offset in wanted:
        await log.seek(topic, name, number, offset, tenant=call.caller.tenant)
    return json_answer(await _consumer(call, topic, name))


@endpoint("DELETE", _CONSUMER, TokenScope.CONSUME, status=204)
async def delete_consumer(call: Call) -> Response:
    """Remove a consumer's cursors. 404 if there are none."""
    topic, name = await call.topic(), check_consumer_name(call.path("consumer"))
    if not await call.log.delete_consumer(topic, name, tenant=call.caller.tenant):
        raise _unknown(name)
    return Response(status_code=204)


@endpoint("GET", "/v1/lag", TokenScope.READ, answers={JSON: ShownLags})
async def get_lag(call: Call) -> Response:
    """Return how far behind the consumers of every topic are."""
    topics = await call.caller.visible(call.log)
    return json_answer({"topics": [_shown(each, await _lags(call, each)) for each in topics]})


@endpoint(
    "GET",
    "/v1/topics/{topic}/dead-letters",
    TokenScope.READ,
    query=DeadLettersQuery,
    answers={JSON: ShownDeadLetters},
)
async def list_dead_letters(call: Call) -> Response:
    """List the dead letters of a topic, oldest first."""
    topic, query = await call.topic(), call.query(DeadLettersQuery)
    if not 1 <= query.limit <= _LETTERS_MAX:
        raise InvalidError(f"limit is a number from 1 to {_LETTERS_MAX}", limit=query.limit)
    found = [
        each
        for each in await in_thread(_letters, call, topic, query.consumer)
        if each.offset > query.after
    ]
    page = found[: query.limit]
    more = page[-1].offset if len(found) > query.limit else None
    letters = [_letter_json(each) for each in page]
    return json_answer({"topic": topic.name, "dead_letters": letters, "next": more})


@endpoint(
    "POST",
    "/v1/topics/{topic}/dead-letters/redrive",
    TokenScope.CONSUME,
    body={JSON: RedriveBody},
    answers={JSON: ShownRedrive},
)
async def redrive_dead_letters(call: Call) -> Response:
    """Deliver dead letters again to their consumers, each once; `dry_run` is the default."""
    topic, given = await call.topic(), await call.json(RedriveBody)
    if given.dry_run:
        found = [
            each
            for each in await in_thread(_letters, call, topic, given.consumer)
            if not each.is_redriven and (given.offsets is None or each.offset in given.offsets)
        ]
    else:
        found = await in_thread(
            redrive, call.log.blocking, topic, consumer=given.consumer, offsets=given.offsets
        )
    letters = [_letter_json(each) for each in found]
    return json_answer({"topic": topic.name, "dry_run": given.dry_run, "dead_letters": letters})


def _letters(call: Call, topic: Topic, consumer: str | None) -> list[DeadLetter]:
    return list(dead_letters(call.log.blocking, topic, consumer=consumer))


async def _lags(call: Call, topic: Topic) -> list[ConsumerLag]:
    return list(await call.log.consumers(topic, tenant=call.caller.tenant))


async def _consumer(call: Call, topic: Topic, name: str) -> dict[str, Any]:
    lags = [each for each in await _lags(call, topic) if each.consumer == name]
    if not lags:
        raise _unknown(name)
    return _shown(topic, lags)


def _unknown(name: str) -> InvalidError:
    return InvalidError("there is no such consumer", consumer=name, near=[])


def _shown(topic: Topic, lags: list[ConsumerLag]) -> dict[str, Any]:
    return {"topic": topic.name, "consumers": [lag_json(each) for each in lags]}


def _numbered(given: dict[str, Any]) -> list[tuple[int, Any]]:
    if not given:
        raise InvalidError("name a partition at least")
    for each in given:
        if not (each.isascii() and each.isdecimal()):
            raise InvalidError("a partition is a number from 0", partition=each)
    return [(int(number), value) for number, value in given.items()]


def _letter_json(letter: DeadLetter) -> dict[str, Any]:
    event = letter.event
    own = {name: text for name, text in event.headers.items() if not name.startswith(_OURS)}
    return {
        "offset": letter.offset,
        "consumer": letter.consumer,
        "deliveries": letter.deliveries,
        "reason": letter.reason,
        "partition": letter.partition,
        "record_offset": letter.record_offset,
        "kind": event.kind,
        "key": event.key,
        "payload": msgspec.Raw(event.payload_json),
        "headers": own,
        "is_redriven": letter.is_redriven,
    }


ENDPOINTS = (
    list_consumers,
    get_consumer,
    ack_consumer,
    seek_consumer,
    delete_consumer,
    get_lag,
    list_dead_letters,
    redrive_dead_letters,
)
