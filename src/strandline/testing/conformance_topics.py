"""Rules about topics. Every public function is one."""

import asyncio
from functools import partial

import pyarrow as pa

from strandline.log import AsyncLog
from strandline.testing.conformance_checks import OpenLog, event, fill, numbers, refused
from strandline.values import ConflictError, InvalidError, Marks, Offset, TopicSettings, ValueKind
from strandline.values.batches import SCHEMA_DEPTH_MAX
from strandline.values.internal_topics import INTERNAL_TOPICS

HOSTILE_NAMES: tuple[object, ...] = (
    *("", ".", "..", "../up", "a/b", "a\\b", "-rf", ".hidden", "ends."),
    *("nul\0", "line\nbreak", "räksmörgås", "a" * 201, " a", "a*", "\ud800"),
    *(None, 7, b"bytes", ("a",)),
)


def creating_again_with_equal_settings_gives_the_same_topic(open_log: OpenLog) -> None:
    log = open_log()
    first = log.create_topic("orders", partitions=3)

    again = log.create_topic("orders", partitions=3)

    assert again == first
    assert [topic.name for topic in log.topics()] == ["orders"]


def creating_again_with_other_settings_is_a_conflict(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=3)

    with refused(ConflictError):
        log.create_topic("orders", partitions=4)
    with refused(ConflictError):
        log.create_topic("orders", partitions=3, value_kind=ValueKind.BYTES)

    assert log.describe_topic("orders").settings == TopicSettings(partitions=3)


def what_is_no_schema_is_refused_and_leaves_no_topic(open_log: OpenLog) -> None:
    log = open_log()
    deep = pa.int64()
    for _ in range(SCHEMA_DEPTH_MAX + 1):
        deep = pa.list_(deep)

    for schema in (b"arrow", _packed("total")[:-8], pa.schema([("a", deep)]).serialize()):
        with refused(InvalidError):
            log.create_topic("orders", value_kind=ValueKind.BATCH, schema=bytes(schema))

    assert log.topics() == []


def a_schema_and_metadata_are_kept_with_the_settings(open_log: OpenLog) -> None:
    log = open_log()
    metadata = {"owner": "köln", "a": ""}
    schema, other = _packed("total"), _packed("amount")
    first = log.create_topic("orders", value_kind=ValueKind.BATCH, schema=schema, metadata=metadata)

    again = log.create_topic("orders", value_kind=ValueKind.BATCH, schema=schema, metadata=metadata)
    with refused(ConflictError):
        log.create_topic("orders", value_kind=ValueKind.BATCH, schema=other, metadata=metadata)
    with refused(ConflictError):
        log.create_topic("orders", value_kind=ValueKind.BATCH, schema=schema)
    with refused(InvalidError):
        log.create_topic("events", schema=schema)

    assert again == first
    log.change_retention("orders", retention_age_s=60, retention_bytes=None)
    settings = log.describe_topic("orders").settings
    assert settings.schema == schema
    assert settings.metadata == (("a", ""), ("owner", "köln"))


def a_declared_payload_schema_is_kept_with_the_settings(open_log: OpenLog) -> None:
    log = open_log()
    declared = pa.schema({"amount": pa.int64(), "to": pa.struct({"city": pa.string()})})
    first = log.create_topic("orders", payload_schema=declared)

    again = log.create_topic("orders", payload_schema=declared)
    with refused(ConflictError) as conflict:
        log.create_topic("orders")
    with refused(InvalidError):
        log.create_topic("frames", value_kind=ValueKind.BYTES, payload_schema=declared)
    with refused(InvalidError):
        log.create_topic("other", payload_schema=pa.schema({"amount": pa.float32()}))

    assert again == first
    assert conflict.error is not None
    assert conflict.error.fields["payload_schema_asked"] is None
    log.change_retention("orders", retention_age_s=60)
    assert log.describe_topic("orders").settings.payload_schema == declared
    log.append("orders", event(1))
    assert numbers(log, "orders") == [1]


def a_topic_has_at_least_one_partition(open_log: OpenLog) -> None:
    log = open_log()

    for partitions in (0, -1, True, 1.5):
        with refused(InvalidError):
            log.create_topic("orders", partitions=partitions)  # type: ignore[arg-type]

    assert not log.topics()


def topics_are_listed_by_name_and_by_tenant(open_log: OpenLog) -> None:
    log = open_log()
    for name in ("b", "c", "a"):
        log.create_topic(name)
    log.create_topic("d", tenant="acme")
    log.create_topic("__strandline.dead_letters", internal=True)

    names = [topic.name for topic in log.topics()]

    assert names == ["a", "b", "c"]
    assert [topic.name for topic in log.topics(tenant="acme")] == ["d"]
    assert [topic.name for topic in log.topics(internal=True)] == ["__strandline.dead_letters"]
    assert not log.topics(tenant="other")
    assert log.tenants() == ["acme"]


def two_tenants_may_each_have_a_topic_of_one_name(open_log: OpenLog) -> None:
    log = open_log()
    global_topic = log.create_topic("orders")
    own_topic = log.create_topic("orders", tenant="acme", partitions=2)

    log.append("orders", event(0))
    log.append(own_topic, event(1), partition=1)

    assert global_topic.id != own_topic.id
    assert log.topic("orders") == global_topic
    assert log.topic("orders", tenant="acme") == own_topic
    assert numbers(log, "orders") == [0]
    assert numbers(log, own_topic, 1) == [1]


def a_name_that_differs_only_by_case_is_refused(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("Orders")

    with refused(InvalidError):
        log.create_topic("orders")
    log.create_topic("orders", tenant="acme")

    assert [topic.name for topic in log.topics()] == ["Orders"]


def hostile_names_are_refused(open_log: OpenLog) -> None:
    """T3: no name leads to another path."""
    log = open_log()

    for name in (*HOSTILE_NAMES, "__strandline.x", "__STRANDLINE.x"):
        with refused(InvalidError):
            log.create_topic(name)  # type: ignore[arg-type]
    for name in HOSTILE_NAMES:
        with refused(InvalidError):
            log.append(name, event(0))  # type: ignore[arg-type]
    for name in HOSTILE_NAMES[:-4]:
        with refused(InvalidError):
            log.create_topic("orders", tenant=name)  # type: ignore[arg-type]

    assert not log.topics()


def only_internal_topics_have_the_reserved_prefix(open_log: OpenLog) -> None:
    log = open_log()

    with refused(InvalidError):
        log.create_topic("orders", internal=True)
    log.create_topic("__strandline.dead_letters", internal=True)
    log.append("__strandline.dead_letters", event(5))

    assert numbers(log, "__strandline.dead_letters") == [5]


def an_unknown_topic_is_refused_with_near_matches(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    log.create_topic("payments")
    log.create_topic("ordering", tenant="acme")

    with refused(InvalidError) as appending:
        log.append("order", event(0))
    with refused(InvalidError) as reading:
        log.read("order", 0, 0)
    with refused(InvalidError) as far:
        log.marks("zzz", 0)

    assert list(appending.value.fields["near"]) == ["orders"]  # type: ignore[call-overload]
    assert list(reading.value.fields["near"]) == ["orders"]  # type: ignore[call-overload]
    assert not far.value.fields["near"]
    assert len(log.topics()) == 2


def auto_create_makes_a_topic_for_what_is_appended(open_log: OpenLog) -> None:
    log = open_log(auto_create=True)

    log.append("orders", event(0))
    log.append("raw", b"bytes")
    with refused(InvalidError):
        log.read("unknown", 0, 0)
    with refused(InvalidError):
        log.append("../up", event(0))

    assert log.describe_topic("orders").settings == TopicSettings()
    assert log.describe_topic("raw").settings.value_kind is ValueKind.BYTES
    assert len(log.topics()) == 2


def auto_create_on_a_loop_keeps_the_order_of_the_appends(open_log: OpenLog) -> None:
    log = open_log(auto_create=True)

    async def append() -> int:
        on_loop = AsyncLog(log)
        on_loop.append("orders", event(0))
        on_loop.append("orders", event(1))
        return (await on_loop.append("orders", event(2))).offset

    assert asyncio.run(append()) == 2
    assert numbers(log, "orders") == [0, 1, 2]


def a_dropped_topic_is_gone_with_its_consumers(open_log: OpenLog) -> None:
    log = open_log()
    old = log.create_topic("orders")
    fill(log, "orders", 3)
    log.ack("orders", "billing", 0, 2)

    log.drop_topic("orders")
    with refused(InvalidError):
        log.append("orders", event(0))
    new = log.create_topic("orders")

    assert new.id != old.id
    assert log.marks("orders", 0) == Marks(Offset(0), Offset(0), Offset(0))
    assert log.cursor("orders", "billing", 0) is None
    for topic_call in (log.topic, log.describe_topic, log.drop_topic):
        with refused(InvalidError):
            topic_call(old)
    with refused(InvalidError):
        log.append(old, event(0))
    assert not numbers(log, new)


def an_emptied_topic_stays_listed_and_keeps_its_head(open_log: OpenLog) -> None:
    """WE14: what was trimmed away leaves the topic, its marks and its reports as they are."""
    log = open_log()
    topic = log.create_topic("orders")
    fill(log, "orders", 2)

    report = log.trim("orders", 0, 2)

    assert (report.removed, report.remaining, report.low) == (2, 0, 2)
    assert list(log.topics()) == [topic]
    described = log.describe_topic("orders")
    assert (described.records, described.size_bytes) == (0, 0)
    assert (log.marks("orders", 0).low, log.marks("orders", 0).high) == (2, 2)
    assert log.append("orders", event(2)).offset == 2


def an_internal_topic_that_is_an_only_index_is_never_shortened(open_log: OpenLog) -> None:
    log = open_log()
    for kept in (known.name for known in INTERNAL_TOPICS if known.cost is None):
        with refused(InvalidError):
            log.create_topic(kept, internal=True, retention_age_s=1)
        topic = log.create_topic(kept, internal=True)
        fill(log, kept, 3)
        log.sync(kept, 0)

        for named in (topic, kept):
            attempts = (
                partial(log.trim, named, 0, 2),
                partial(log.trim, named, 0, 2, force=True),
                partial(log.evict, named, 0, 2),
                partial(log.apply_retention, named),
                partial(log.change_retention, named, retention_age_s=1, retention_bytes=None),
                partial(log.drop_topic, named),
            )
            for attempt in attempts:
                with refused(InvalidError):
                    attempt()
        log.change_retention(kept, retention_age_s=None, retention_bytes=None)
        assert numbers(log, kept) == [0, 1, 2]


def an_internal_topic_that_is_no_only_index_may_be_shortened(open_log: OpenLog) -> None:
    log = open_log()
    for known in INTERNAL_TOPICS:
        if known.cost is not None:
            name = f"{known.name}orders"
            log.create_topic(name, internal=True)
            fill(log, name, 3)

            assert log.trim(name, 0, 2).low == 2
            log.drop_topic(name)

    assert not log.topics(internal=True)


def a_declared_payload_can_be_replaced_and_removed(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", retention_age_s=60)
    log.append("orders", event(1))
    declared = pa.schema({"amount": pa.int64()})

    described = log.declare_payload("orders", declared)

    assert described.settings.payload_schema == declared
    assert log.describe_topic("orders").settings == described.settings
    assert described.settings.retention_age_s == 60
    log.append("orders", event(2))
    with refused(InvalidError):
        log.declare_payload("orders", pa.schema({"amount": pa.float32()}))
    with refused(InvalidError):
        log.declare_payload("ordres", None)
    log.create_topic("frames", value_kind=ValueKind.BYTES)
    with refused(InvalidError):
        log.declare_payload("frames", declared)
    assert log.declare_payload("orders", None).settings.payload_schema is None
    assert numbers(log, "orders") == [1, 2]


def retention_can_be_replaced(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", retention_age_s=60)

    described = log.change_retention("orders", retention_age_s=None, retention_bytes=1000)

    assert described.settings == TopicSettings(retention_bytes=1000)
    assert log.describe_topic("orders").settings == described.settings
    with refused(InvalidError):
        log.change_retention("orders", retention_age_s=0, retention_bytes=None)


def a_limit_that_is_not_named_stays_as_it_is(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", retention_age_s=60, retention_bytes=1000, limit_bytes=2000)

    described = (
        log.change_retention("orders", retention_age_s=90),
        log.change_retention("orders", retention_bytes=900),
        log.change_retention("orders", limit_bytes=None),
        log.change_retention("orders"),
    )

    assert [each.settings for each in described] == [
        TopicSettings(retention_age_s=90, retention_bytes=1000, limit_bytes=2000),
        TopicSettings(retention_age_s=90, retention_bytes=900, limit_bytes=2000),
        TopicSettings(retention_age_s=90, retention_bytes=900),
        TopicSettings(retention_age_s=90, retention_bytes=900),
    ]
    with refused(InvalidError):
        log.change_retention("orders", limit_bytes=899)
    log.create_topic("orders", retention_age_s=90, retention_bytes=900)


def a_conflict_of_settings_names_each_as_it_is_and_as_requested(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2, retention_age_s=60)

    with refused(ConflictError) as caught:
        log.create_topic("orders", limit_bytes=10)

    found = caught.value.fields
    assert (found["partitions"], found["partitions_asked"]) == (2, 1)
    assert (found["retention_age_s"], found["retention_age_s_asked"]) == (60, None)
    assert (found["limit_bytes"], found["limit_bytes_asked"]) == (None, 10)
    assert found.keys().isdisjoint({"retention_bytes", "value_kind", "proof"})
    assert "None is no limit" in str(caught.value)


def a_log_describes_itself(open_log: OpenLog) -> None:
    log = open_log()
    before = log.describe()
    log.create_topic("orders", partitions=3)
    log.create_topic("orders", tenant="acme")
    fill(log, "orders", 5, partition=1)

    after = log.describe()

    assert (before.topics, before.partitions, before.records) == (0, 0, 0)
    assert (after.topics, after.partitions, after.records) == (2, 4, 5)
    assert after.size_bytes > before.size_bytes
    assert after.log_id == log.id
    assert after.backend
    assert after.location
    assert after.mode is log.mode
    assert after.durability_max is log.durability_max
    assert log.describe_topic("orders").size_bytes > 0


def _packed(column: str) -> bytes:
    return bytes(pa.schema([(column, pa.int64())]).serialize())
