"""The port of the store over HTTP, for remote logs: topics, reads and changes. See design 0101."""

from typing import Any, cast

from strandline.log import wire
from strandline.log.draft import size_of
from strandline.log.history import Damage, Kept, Piece
from strandline.log.ranges import ReadRange
from strandline.log.store import DurableStore, SegmentedStore, StoredTopic
from strandline.log.terms import check_new_name
from strandline.log.topics import check_settings
from strandline.server.call import Call
from strandline.server.endpoint import Endpoint
from strandline.server.problems import RequestError
from strandline.server.remote_call import StorePort, port_call
from strandline.server.tokens import TokenScope
from strandline.values import (
    Durability,
    Event,
    InvalidError,
    Record,
    TopicSettings,
    ValueKind,
    parse_tenant,
)
from strandline.values.batches import encode_batch
from strandline.values.names import RESERVED_PREFIX

_HISTORY_RECORDS = 4096


@port_call("open", wire.DoneReturn)
def open_store(call: Call, port: StorePort, given: wire.DoneReturn) -> wire.Message:
    """Describe the store."""
    del given
    store = port.store
    found = store.capabilities
    return wire.WireStore(
        store.id,
        store.url if call.caller.tenant is None else "",
        int(found.durability_max),
        found.durability_reason,
        found.has_segments,
        found.stores_columns,
        found.trims_at_once,
        sorted(call.caller.scopes),
        call.settings.body_bytes_max,
        call.caller.tenant,
        not port.topics.is_everything(call.caller),
    )


@port_call("topics", wire.DoneReturn)
def list_store_topics(call: Call, port: StorePort, given: wire.DoneReturn) -> wire.Message:
    """Return every topic that the caller may access."""
    del given
    return wire.FoundTopics([_topic(each) for each in port.topics.all(call.caller)])


@port_call("find-topic", wire.FindCall)
def find_store_topic(call: Call, port: StorePort, given: wire.FindCall) -> wire.Message:
    """Return a topic, by its name or by its id."""
    found: StoredTopic | None
    if given.topic_id is not None:
        found = port.store.find_topic_id(given.topic_id)
        if found is not None and not port.topics.reaches(call.caller, found.topic):
            found = None
    elif given.name is not None:
        found = port.topics.find(call.caller, parse_tenant(given.tenant), given.name)
    else:
        raise InvalidError("a topic is found by its name or its id")
    return wire.FoundTopics([] if found is None else [_topic(found)])


@port_call("create-topic", wire.CreateCall)
def create_store_topic(call: Call, port: StorePort, given: wire.CreateCall) -> wire.Message:
    """Create a topic, or return the existing one."""
    name = check_new_name(given.name, internal=given.name.startswith(RESERVED_PREFIX))
    whose = port.topics.check_new(call.caller, parse_tenant(given.tenant), name)
    settings = TopicSettings.from_json(given.settings)
    check_settings(name, settings)
    port.quotas.admit_topic(whose, name)
    return wire.FoundTopics([_topic(port.store.create_topic(name, whose, settings))])


@port_call("change-settings", wire.ChangeCall)
def change_store_settings(call: Call, port: StorePort, given: wire.ChangeCall) -> wire.Message:
    """Replace the settings of a topic, unless another process did so first."""
    topic = port.topics.by_id(call.caller, given.topic_id)
    port.topics.check_change(call.caller, topic.topic)
    expected, wanted = (
        TopicSettings.from_json(given.expected),
        TopicSettings.from_json(given.settings),
    )
    if not _may_become(expected, wanted):
        raise InvalidError(
            "only limits and the declared payload of a topic change, and partitions are added"
        )
    check_settings(topic.topic.name, wanted)

    def change(present: TopicSettings) -> TopicSettings:
        return wanted if present == expected else present

    present = port.store.change_settings(topic, change)
    port.topics.forget(given.topic_id)
    return wire.WireTopic(topic.topic.to_json(), present.to_json(), topic.created_at_us)


def _may_become(present: TopicSettings, wanted: TopicSettings) -> bool:
    """Whether only limits and the declared payload differ, and partitions that are added."""
    if present.value_kind is ValueKind.EVENT:
        present = present.with_payload_schema(wanted.schema)
    if wanted.partitions > present.partitions and wanted.earlier_partitions:
        until_us = wanted.earlier_partitions[-1].until_us
        present = present.with_partitions(wanted.partitions, until_us)
    changed = present.with_limits(
        retention_age_s=wanted.retention_age_s,
        retention_bytes=wanted.retention_bytes,
        limit_bytes=wanted.limit_bytes,
    )
    return changed == wanted


@port_call("drop-topic", wire.TopicCall)
def drop_store_topic(call: Call, port: StorePort, given: wire.TopicCall) -> wire.Message:
    """Remove a topic with its records and keys."""
    topic = port.topics.by_id(call.caller, given.topic_id)
    port.topics.check_change(call.caller, topic.topic)
    port.store.drop_topic(topic)
    port.topics.forget(given.topic_id)
    return wire.DoneReturn()


def _topic(found: StoredTopic) -> wire.WireTopic:
    return wire.WireTopic(found.topic.to_json(), found.settings.to_json(), found.created_at_us)


# --- reading ---


@port_call("marks", wire.PartitionCall)
def get_store_marks(call: Call, port: StorePort, given: wire.PartitionCall) -> wire.Message:
    """Return where a partition begins and ends."""
    return wire.wire_marks(port.store.marks(*port.partition(call, given)))


@port_call("state", wire.PartitionCall)
def get_store_state(call: Call, port: StorePort, given: wire.PartitionCall) -> wire.Message:
    """Return the state of a partition."""
    state = port.store.state(*port.partition(call, given))
    epochs = [(each.number, each.id, int(each.start)) for each in state.epochs]
    return wire.WireState(wire.wire_marks(state.marks), state.oldest, epochs)


@port_call("read", wire.ReadCall, is_read=True)
def read_store(call: Call, port: StorePort, given: wire.ReadCall) -> wire.Message:
    """Read a page of a partition."""
    topic, number = port.partition(call, given)
    wanted = ReadRange(
        given.start, given.end, given.records_max, given.bytes_max, given.durable_only
    ).checked()
    # The marks are read first, so that no record of the page lies beyond them.
    stop = wanted.stop(port.store.marks(topic, number))
    records_max = min(stop - wanted.start, wire.PAGE_RECORDS)
    bytes_max = min(wire.PAGE_BYTES, call.page_bytes_max)
    if wanted.bytes_max is not None:
        bytes_max = min(bytes_max, wanted.bytes_max)
    page = wanted._replace(records_max=records_max, bytes_max=bytes_max)
    records = [wire_record(each) for each in port.store.read(topic, number, page)]
    return wire.ReadReturn(records, stop)


def wire_record(record: Record) -> wire.WireRecord:
    """Return a record in the form of a message."""
    value = record.value
    if isinstance(value, Event):
        kind, payload, _, headers, occurred_at_us = value.parts()
        body = wire.WireBody(payload, kind, headers, occurred_at_us)
    else:
        body = wire.wire_body(value if isinstance(value, bytes) else encode_batch(value))
    return wire.WireRecord(
        *(record.offset, record.timestamp_us, record.key, record.tenant, body), size_of(record)
    )


@port_call("history", wire.ReadCall, is_read=True)
def get_store_history(call: Call, port: StorePort, given: wire.ReadCall) -> wire.Message:
    """Read a part of a partition's history, with its proof."""
    topic, number = port.partition(call, given)
    found = port.store.history(topic, number, given.start, given.end)
    pieces: list[wire.WirePiece] = []
    count = size = 0
    following: int | None = None
    for each in found.pieces:
        if isinstance(each, Piece):
            records = [_kept(one) for one in each.entries]
            pieces.append(wire.WirePiece(records, each.value))
            count += len(records)
            size += sum(len(one.body.payload) for one in records)
            if records:
                following = records[-1].offset + 1
        elif isinstance(each, Damage):
            pieces.append(wire.WirePiece(damage=(each.offset, each.stop, each.reason)))
            following = each.stop
        else:
            pieces.append(wire.WirePiece(finding=(each.offset, each.reason)))
        if count >= _HISTORY_RECORDS or size >= wire.PAGE_BYTES:
            break
    else:
        following = None
    return wire.HistoryReturn(
        found.low, found.high, found.anchor, found.is_proved, pieces, following
    )


def _kept(one: Kept) -> wire.WireRecord:
    return wire.WireRecord(
        *(one.offset, one.timestamp_us, one.key, one.tenant, wire.wire_body(one.body)), 0
    )


@port_call("segments", wire.PartitionCall)
def get_store_segments(call: Call, port: StorePort, given: wire.PartitionCall) -> wire.Message:
    """Return the segments of a partition."""
    found = port.store.segments(*port.partition(call, given))
    return wire.Segments(
        [
            wire.WireSegment(
                *(each.start, each.end, each.size_bytes),
                *(each.first_timestamp_us, each.last_timestamp_us, each.is_sealed),
            )
            for each in found
        ]
    )


# --- changing ---


@port_call("trim", wire.PartitionCall)
def trim_store(call: Call, port: StorePort, given: wire.PartitionCall) -> wire.Message:
    """Raise the low-water mark."""
    topic, number = port.partition(call, given)
    port.topics.check_change(call.caller, topic.topic)
    marks, is_released = port.store.trim(topic, number, given.offset)
    return wire.TrimReturn(wire.wire_marks(marks), is_released)


@port_call("evict", wire.PartitionCall)
def evict_store(call: Call, port: StorePort, given: wire.PartitionCall) -> wire.Message:
    """Free the storage of records that are kept elsewhere."""
    topic, number = port.partition(call, given)
    call.caller.check(TokenScope.ADMIN)
    return wire.NumberReturn(port.store.evict(topic, number, given.offset))


@port_call("sync", wire.PartitionCall)
def sync_store(call: Call, port: StorePort, given: wire.PartitionCall) -> wire.Message:
    """Make a partition durable, if the log can."""
    topic, number = port.partition(call, given)
    if port.store.capabilities.durability_max is Durability.DURABLE:
        cast("DurableStore[Any]", port.store).sync(topic, number)
    return wire.DoneReturn()


@port_call("flush", wire.DoneReturn)
def flush_store(call: Call, port: StorePort, given: wire.DoneReturn) -> wire.Message:
    """Make everything durable, if the log can."""
    del given
    if not call.caller.scopes & {TokenScope.ADMIN, TokenScope.APPEND, TokenScope.CONSUME}:
        raise RequestError(403, "this needs a token with a scope to write")
    if port.store.capabilities.durability_max is Durability.DURABLE:
        cast("DurableStore[Any]", port.store).flush()
    return wire.DoneReturn()


@port_call("seal", wire.PartitionCall)
def seal_store(call: Call, port: StorePort, given: wire.PartitionCall) -> wire.Message:
    """End the last segment of a partition."""
    topic, number = port.partition(call, given)
    call.caller.check(TokenScope.ADMIN)
    if not port.store.capabilities.has_segments:
        return wire.NumberReturn(0)
    return wire.NumberReturn(cast("SegmentedStore[Any]", port.store).seal(topic, number))


@port_call("size", wire.DoneReturn)
def get_store_size(call: Call, port: StorePort, given: wire.DoneReturn) -> wire.Message:
    """Return the size of the log; for a token of a tenant, the size of its records."""
    del given
    if call.caller.tenant is None and call.caller.topics == ("*",):
        return wire.NumberReturn(port.store.size_bytes())
    return wire.NumberReturn(
        sum(
            segment.size_bytes
            for topic in port.topics.all(call.caller)
            for number in range(topic.settings.partitions)
            for segment in port.store.segments(topic, number)
        )
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    *(open_store, list_store_topics, find_store_topic, create_store_topic),
    *(change_store_settings, drop_store_topic),
    *(get_store_marks, get_store_state, read_store, get_store_history, get_store_segments),
    *(trim_store, evict_store, sync_store, flush_store, seal_store, get_store_size),
)
