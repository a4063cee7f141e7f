"""Keys, claims and hints of remote logs over HTTP. See design 0101."""

import contextlib
from uuid import UUID

from starlette.responses import Response

from strandline.log import Hint, wire
from strandline.log.claims import ConsumerPlace
from strandline.log.off_loop import in_thread
from strandline.log.store import StoredTopic
from strandline.server.call import Call
from strandline.server.endpoint import Endpoint
from strandline.server.remote_call import (
    StorePort,
    port_answer,
    port_call,
    port_endpoint,
    port_message,
)
from strandline.server.settings import WAIT_MAX_S
from strandline.server.tokens import TokenScope
from strandline.values import (
    ClosedError,
    DroppedError,
    InvalidError,
    Partition,
    check_consumer_name,
    parse_tenant,
)

_WATCHED_MAX = 65_536


@port_call("keys", wire.TopicCall)
def list_store_keys(call: Call, port: StorePort, given: wire.TopicCall) -> wire.Message:
    """Return the keys of a topic with their values."""
    topic = port.topics.by_id(call.caller, given.topic_id)
    return wire.KeysReturn(dict(port.store.keys(topic)))


@port_call("get-key", wire.KeyCall)
def get_store_key(call: Call, port: StorePort, given: wire.KeyCall) -> wire.Message:
    """Return the value of a key."""
    topic = port.topics.by_id(call.caller, given.topic_id)
    value = port.store.get_key(topic, given.key)
    return wire.KeysReturn({} if value is None else {given.key: value})


@port_call("put-key", wire.KeyCall)
def put_store_key(call: Call, port: StorePort, given: wire.KeyCall) -> wire.Message:
    """Replace the value of a key, if the present one is the expected one."""
    topic = port.topics.by_id(call.caller, given.topic_id)
    call.caller.check(TokenScope.CONSUME)
    if given.value is None:
        raise InvalidError("a key is put with a value")
    return wire.DoneReturn(port.store.put_key(topic, given.key, given.value, given.expected))


@port_call("remove-key", wire.KeyCall)
def remove_store_key(call: Call, port: StorePort, given: wire.KeyCall) -> wire.Message:
    """Remove a key."""
    topic = port.topics.by_id(call.caller, given.topic_id)
    call.caller.check(TokenScope.CONSUME)
    return wire.DoneReturn(port.store.remove_key(topic, given.key))


@port_call("claim", wire.ClaimCall)
def claim_in_store(call: Call, port: StorePort, given: wire.ClaimCall) -> wire.Message:
    """Claim a consumer's partition, for as long as the claim is renewed."""
    topic, number = port.partition(call, given)
    call.caller.check(TokenScope.CONSUME)
    consumer = check_consumer_name(given.consumer)
    place = ConsumerPlace(topic.topic, parse_tenant(given.tenant), consumer, Partition(number))
    port.claims.take(_lease(call, given.lease), place)
    return wire.DoneReturn()


@port_call("renew-claims", wire.LeasesCall)
def renew_store_claims(call: Call, port: StorePort, given: wire.LeasesCall) -> wire.Message:
    """Renew claims; return those that are no longer valid."""
    call.caller.check(TokenScope.CONSUME)
    unknown = port.claims.renew([_lease(call, each) for each in given.leases])
    return wire.LeasesReturn([each.partition("/")[2] for each in unknown])


@port_call("release-claims", wire.LeasesCall)
def release_store_claims(call: Call, port: StorePort, given: wire.LeasesCall) -> wire.Message:
    """Release a claim."""
    call.caller.check(TokenScope.CONSUME)
    port.claims.release([_lease(call, each) for each in given.leases])
    return wire.DoneReturn()


def _lease(call: Call, name: str) -> str:
    """Return a name that no other caller can use."""
    return f"{call.caller.id}/{name}"


@port_endpoint("watch")
async def store_watch(call: Call) -> Response:
    """For remote logs. Wait until one of these partitions has grown, and return where they end."""
    given = await port_message(call, wire.WatchCall)
    if len(given.seen) > _WATCHED_MAX or not 0 <= given.wait_s <= WAIT_MAX_S:
        raise InvalidError("this watches too much, or for too long", partitions=len(given.seen))
    slot = call.streams.take(call.caller)
    try:
        return port_answer(await _watched(call, given))
    finally:
        slot.release()


async def _watched(call: Call, given: wire.WatchCall) -> wire.WatchReturn:
    known, gone = await in_thread(_known, call, given)
    if gone:
        return _gone(gone)
    async with call.log.watch(durable_only=given.durable_only) as watch:

        def add_all() -> None:
            for topic_id, number, seen in given.seen:
                try:
                    watch.blocking.add(known[topic_id].topic, number, seen)
                except InvalidError:
                    # It was dropped meanwhile, or never existed.
                    gone.append((topic_id, number))

        await in_thread(add_all)
        if gone:
            return _gone(gone)
        hints: tuple[Hint, ...] = ()
        ended = call.streams.ended_by(watch.wake, call.request.receive)
        with ended, contextlib.suppress(ClosedError):
            hints = tuple(await watch.wait(given.wait_s))
        return wire.WatchReturn([(each.topic.id, each.partition, each.end) for each in hints])


def _gone(partitions: list[tuple[UUID, int]]) -> wire.WatchReturn:
    return wire.WatchReturn([(*each, -1) for each in partitions])


def _known(
    call: Call, given: wire.WatchCall
) -> tuple[dict[UUID, StoredTopic], list[tuple[UUID, int]]]:
    known: dict[UUID, StoredTopic] = {}
    gone = []
    for topic_id, number, _ in given.seen:
        if topic_id not in known:
            call.port.topics.forget(topic_id)
            try:
                known[topic_id] = call.port.topics.by_id(call.caller, topic_id)
            except DroppedError:
                gone.append((topic_id, number))
    return known, gone


ENDPOINTS: tuple[Endpoint, ...] = (
    *(list_store_keys, get_store_key, put_store_key, remove_store_key),
    *(claim_in_store, renew_store_claims, release_store_claims, store_watch),
)
