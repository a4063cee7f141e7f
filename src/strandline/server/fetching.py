"""Groups and work queues over HTTP: fetching records with leases, and settling them."""

import asyncio
import contextlib
from typing import Any, Literal

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from strandline.server.call import Call
from strandline.server.client_member import MemberTerms
from strandline.server.consumers import CONSUMER_PATH
from strandline.server.endpoint import JSON, endpoint, json_answer
from strandline.server.fetch_line import Fetch
from strandline.server.members import LeaseAction, LeaseResults, extending, nacking
from strandline.server.settings import WAIT_MAX_S
from strandline.server.streams import until_disconnected
from strandline.server.tokens import TokenScope
from strandline.subscriptions import DELIVERIES_MAX, VISIBILITY_S
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.values import InvalidError, check_consumer_name
from strandline.values.json_forms import record_json

_FETCH_MAX = 1000
_LEASE_MAX_S = 12 * 3600.0
_MEMBER_CHARS_MAX = 200


class FetchBody(msgspec.Struct, forbid_unknown_fields=True):
    """What to fetch, and as which member; all clients of a consumer pass the same options."""

    kind: Literal["queue", "group"] = "queue"
    """Whether members share records (a work queue), or partitions (a group)."""
    member: str = ""
    """Of a group, which of its members the client is: any name, its own."""
    limit: int = 100
    wait: float = 0
    """How many seconds to wait for a first record."""
    lease_s: float = VISIBILITY_S
    deliveries_max: int = DELIVERIES_MAX
    order: Literal["key"] | None = None
    start: Literal["earliest", "latest"] = "earliest"
    where: str = ""


class LeasedRecord(msgspec.Struct):
    """A record with its lease; until that ends, no other client gets the record."""

    lease: str
    count: int
    """How often it was delivered, this time included."""
    record: dict[str, Any]


class FetchAnswer(msgspec.Struct):
    """Records with their leases; none if there was none in time."""

    topic: str
    consumer: str
    deliveries: list[LeasedRecord]


class NackBody(msgspec.Struct, forbid_unknown_fields=True):
    """Leases to release."""

    leases: list[str]
    delay_s: float = 0.0
    reason: str = ""


class ExtendBody(msgspec.Struct, forbid_unknown_fields=True):
    """Leases to prolong, counted from now."""

    leases: list[str]
    lease_s: float = VISIBILITY_S


@endpoint(
    "POST",
    f"{CONSUMER_PATH}/fetch",
    TokenScope.CONSUME,
    body={JSON: FetchBody},
    answers={JSON: FetchAnswer},
)
async def fetch_consumer(call: Call) -> Response:
    """Fetch records as a member of a work queue or a group, each with a lease.

    A record that is not settled before its lease ends is delivered again: of a queue to any
    member, of a group before later records of its partition. After `deliveries_max` deliveries
    it is dead-lettered. Clients of the same name and options are served in order of arrival. If
    the client disconnects, the wait ends, and the records of an unsent answer are put back. 503
    while members of the other kind are open.
    """
    topic, name = await call.topic(), check_consumer_name(call.path("consumer"))
    given = _checked(await call.json(FetchBody))
    options: dict[str, Any] = {
        "start": given.start,
        "where": given.where,
        "deliveries_max": given.deliveries_max,
    }
    if given.order is not None:
        options["order"] = given.order
    terms = MemberTerms(
        *(ConsumerName(topic, name, call.caller.tenant), call.caller.id, given.kind),
        given.member,
        given.lease_s,
        tuple(options.items()),
    )
    line = await call.members.line(terms)
    disconnected = asyncio.ensure_future(until_disconnected(call.request.receive))
    fetch = line.enter(given.limit, call.page_bytes_max, given.wait)
    try:
        await _wait(call, fetch, disconnected, is_long=given.wait > 0)
        found = fetch.found.result() if fetch.found.done() else []
        deliveries = [
            LeasedRecord(lease, each.count, record_json(each.record)) for lease, each in found
        ]
        body = msgspec.json.encode(FetchAnswer(topic.name, name, deliveries))
        return LeasedResponse(body, fetch, disconnected)
    except BaseException:
        fetch.leave()
        disconnected.cancel()
        raise


@endpoint(
    "POST",
    f"{CONSUMER_PATH}/nack",
    TokenScope.CONSUME,
    body={JSON: NackBody},
    answers={JSON: LeaseResults},
)
async def nack_consumer(call: Call) -> Response:
    """Nack records: they are delivered again after a delay, or dead-lettered after the last try."""
    given = await call.json(NackBody)
    if not 0 <= given.delay_s <= _LEASE_MAX_S * 60:
        raise InvalidError("delay_s is a number of seconds from 0 to 30 days", value=given.delay_s)
    return await _settled(call, given.leases, nacking(given.delay_s, given.reason))


@endpoint(
    "POST",
    f"{CONSUMER_PATH}/extend",
    TokenScope.CONSUME,
    body={JSON: ExtendBody},
    answers={JSON: LeaseResults},
)
async def extend_consumer(call: Call) -> Response:
    """Prolong leases, counted from now. A member of a group keeps its partitions until they end."""
    given = await call.json(ExtendBody)
    _check_lease(given.lease_s)
    return await _settled(call, given.leases, extending(given.lease_s))


def _checked(given: FetchBody) -> FetchBody:
    if not 1 <= given.limit <= _FETCH_MAX:
        raise InvalidError(f"limit is a number from 1 to {_FETCH_MAX}", limit=given.limit)
    if not 0 <= given.wait <= WAIT_MAX_S:
        raise InvalidError(
            f"wait is a number of seconds from 0 to {WAIT_MAX_S:.0f}", wait=given.wait
        )
    _check_lease(given.lease_s)
    if given.kind == "group" and given.order is not None:
        raise InvalidError("a group keeps the order of each partition, leave order out")
    if (given.kind == "group") != bool(given.member) or len(given.member) > _MEMBER_CHARS_MAX:
        raise InvalidError(
            "a client of a group names its member, of 1 to 200 characters; one of a queue does not"
        )
    return given


def _check_lease(lease_s: float) -> None:
    if not 1 <= lease_s <= _LEASE_MAX_S:
        raise InvalidError("lease_s is a number of seconds from 1 to 12 hours", value=lease_s)


class LeasedResponse(Response):
    """An answer whose records are put back if the client disconnects before it was sent."""

    def __init__(self, body: bytes, fetch: Fetch, disconnected: asyncio.Future[None]) -> None:
        super().__init__(body, media_type=JSON)
        self._fetch = fetch
        self._disconnected = disconnected

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See Starlette."""
        try:
            has_disconnected = self._disconnected.done()
            await super().__call__(scope, receive, send)
            if not has_disconnected:
                self._fetch.note_sent()
        finally:
            self._fetch.leave()
            self._disconnected.cancel()


async def _wait(
    call: Call, fetch: Fetch, disconnected: asyncio.Future[None], *, is_long: bool
) -> None:
    """Wait until records were found, the client has disconnected, or the server shuts down."""
    either: set[asyncio.Future[Any]] = {fetch.found, disconnected}
    slot = call.streams.take(call.caller) if is_long else None
    try:
        with call.streams.ended_by(fetch.end) if is_long else contextlib.nullcontext():
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if slot is not None:
            await slot.check()
    finally:
        if slot is not None:
            slot.release()


async def _settled(call: Call, leases: list[str], act: LeaseAction) -> Response:
    topic, name = await call.topic(), check_consumer_name(call.path("consumer"))
    whose = ConsumerName(topic, name, call.caller.tenant)
    found = await call.members.settle(whose, leases, act)
    return json_answer(LeaseResults(found))


ENDPOINTS = (fetch_consumer, nack_consumer, extend_consumer)
