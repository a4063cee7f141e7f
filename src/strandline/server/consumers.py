"""Consumers over HTTP."""

from typing import Any

import msgspec
from starlette.responses import Response

from strandline.log import Log
from strandline.log.off_loop import in_thread
from strandline.log.ranges import check_kept
from strandline.log.stored_cursors import stored_cursors
from strandline.server.call import Call
from strandline.server.endpoint import JSON, endpoint, json_answer
from strandline.server.members import LeaseResults, acking
from strandline.server.places import offset_of
from strandline.server.tokens import TokenScope
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.delivery_counts import DeliveryCounts
from strandline.values import ConsumerLag, InvalidError, Topic, check_consumer_name
from strandline.values.json_forms import lag_json

_CONSUMERS = "/v1/topics/{topic}/consumers"
CONSUMER_PATH = f"{_CONSUMERS}/{{consumer}}"
_OUTSTANDING_MAX = 1000


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
    """By partition, one past the last handled offset; or leases that `fetch` returned."""

    ends: dict[str, int] = {}
    leases: list[str] | None = None


class SeekBody(msgspec.Struct, forbid_unknown_fields=True):
    """By partition, the next offset to handle, or a place: earliest, latest, -n, a time."""

    places: dict[str, int | str]
    dry_run: bool = False
    """Whether only to show the effect of a seek."""


class ShownMove(msgspec.Struct):
    """The place of a consumer after a seek; `cursor` is null if it had none in the partition."""

    partition: int
    cursor: int | None
    offset: int
    again: int
    """How many records it gets again."""
    skipped: int
    """How many records it skips."""
    lag: int
    """How many records it is behind afterwards."""


class ShownSeek(msgspec.Struct):
    """The effect of a seek, with `dry_run` only planned, and the present progress."""

    topic: str
    dry_run: bool
    moves: list[ShownMove]
    consumers: list[ShownLag]


class ShownAttempts(msgspec.Struct):
    """How often a record was delivered that the consumer has not settled."""

    partition: int
    offset: int
    deliveries: int


class ShownDeliveries(msgspec.Struct):
    """Records that were delivered and are not settled, at most a thousand."""

    topic: str
    consumer: str
    outstanding: list[ShownAttempts]


@endpoint("GET", _CONSUMERS, TokenScope.READ, answers={JSON: ShownConsumers})
async def list_consumers(call: Call) -> Response:
    """List the consumers of a topic, with how far behind each one is."""
    topic = await call.topic()
    return json_answer(_shown(topic, await _lags(call, topic)))


@endpoint("GET", CONSUMER_PATH, TokenScope.READ, answers={JSON: ShownConsumers})
async def get_consumer(call: Call) -> Response:
    """Return the progress of a consumer in each partition. 404 if there is none."""
    topic, name = await call.topic(), check_consumer_name(call.path("consumer"))
    return json_answer(await _consumer(call, topic, name))


@endpoint(
    "POST",
    f"{CONSUMER_PATH}/ack",
    TokenScope.CONSUME,
    body={JSON: AckBody},
    answers={JSON: (ShownConsumers, LeaseResults)},
)
async def ack_consumer(call: Call) -> Response:
    """Acknowledge everything before an offset in each named partition.

    With `leases`, acknowledge their records instead; the answer has a result for each.
    """
    topic, name = await call.topic(), check_consumer_name(call.path("consumer"))
    given = await call.json(AckBody)
    if given.leases is not None:
        if given.ends:
            raise InvalidError("pass ends or leases, not both")
        whose = ConsumerName(topic, name, call.caller.tenant)
        found = await call.members.settle(whose, given.leases, acking())
        return json_answer(LeaseResults(found))
    for number, end in _numbered(given.ends):
        await call.log.ack(topic, name, number, end, tenant=call.caller.tenant)
    return json_answer(await _consumer(call, topic, name))


@endpoint(
    "POST",
    f"{CONSUMER_PATH}/seek",
    TokenScope.CONSUME,
    body={JSON: SeekBody},
    answers={JSON: ShownSeek},
)
async def seek_consumer(call: Call) -> Response:
    """Move a consumer to a place in each named partition; it is created if it does not exist.

    With `dry_run` it stays where it is, and the answer has what would change.
    """
    topic, name = await call.topic(), check_consumer_name(call.path("consumer"))
    given = await call.json(SeekBody)
    before = await _lags(call, topic, name)
    moves = await in_thread(_moves, call.log.blocking, topic, before, _numbered(given.places))
    if not given.dry_run:
        for each in moves:
            await call.log.seek(topic, name, each.partition, each.offset, tenant=call.caller.tenant)
    after = before if given.dry_run else await _lags(call, topic, name)
    return json_answer({**_shown(topic, after), "dry_run": given.dry_run, "moves": moves})


@endpoint("GET", f"{CONSUMER_PATH}/deliveries", TokenScope.READ, answers={JSON: ShownDeliveries})
async def get_deliveries(call: Call) -> Response:
    """Return how often records were delivered that the consumer has not settled."""
    topic, name = await call.topic(), check_consumer_name(call.path("consumer"))
    lags = await _lags(call, topic, name)
    if not lags:
        raise _unknown(name)
    found = await in_thread(_attempts, call, topic, lags)
    return json_answer(ShownDeliveries(topic.name, name, found))


@endpoint("DELETE", CONSUMER_PATH, TokenScope.CONSUME, status=204)
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


def _moves(
    log: Log, topic: Topic, lags: list[ConsumerLag], places: list[tuple[int, Any]]
) -> list[ShownMove]:
    cursors = {int(each.partition): int(each.cursor) for each in lags}
    found = []
    for number, place in places:
        marks = log.marks(topic, number)
        offset = check_kept(marks, offset_of(log, topic, number, str(place)), topic, number)
        cursor = cursors.get(number)
        start = marks.low if cursor is None else max(cursor, marks.low)
        found.append(
            ShownMove(
                partition=number,
                cursor=cursor,
                offset=offset,
                again=0 if cursor is None else max(0, start - offset),
                skipped=max(0, offset - start),
                lag=marks.high - offset,
            )
        )
    return found


def _attempts(call: Call, topic: Topic, lags: list[ConsumerLag]) -> list[ShownAttempts]:
    counts = DeliveryCounts(call.log.blocking, topic, lags[0].consumer, call.caller.tenant)
    log, name, partitions = call.log.blocking, lags[0].consumer, [each.partition for each in lags]
    cursors = stored_cursors(log, topic, name, partitions, call.caller.tenant)
    found = [
        ShownAttempts(int(each.partition), offset, attempts.count)
        for each, stored in zip(lags, cursors, strict=True)
        for seek_id in [None if stored is None else stored.seek_id]
        for offset, attempts in sorted(counts.load(each.partition, each.cursor, seek_id).items())
    ]
    return found[:_OUTSTANDING_MAX]


async def _lags(call: Call, topic: Topic, name: str | None = None) -> list[ConsumerLag]:
    found = await call.log.consumers(topic, tenant=call.caller.tenant)
    return [each for each in found if name in (None, each.consumer)]


async def _consumer(call: Call, topic: Topic, name: str) -> dict[str, Any]:
    lags = await _lags(call, topic, name)
    if not lags:
        raise _unknown(name)
    return _shown(topic, lags)


def _unknown(name: str) -> InvalidError:
    return InvalidError("there is no such consumer", consumer=name, near=[])


def _shown(topic: Topic, lags: list[ConsumerLag]) -> dict[str, Any]:
    return {"topic": topic.name, "consumers": [lag_json(each) for each in lags]}


def _numbered(given: dict[str, Any]) -> list[tuple[int, Any]]:
    if not given:
        raise InvalidError("name at least one partition")
    for each in given:
        if not (each.isascii() and each.isdecimal()):
            raise InvalidError("a partition is a number from 0", partition=each)
    return [(int(number), value) for number, value in given.items()]


ENDPOINTS = (
    list_consumers,
    get_consumer,
    ack_consumer,
    seek_consumer,
    get_deliveries,
    delete_consumer,
    get_lag,
)
