"""The reference tests of typed topics, on every backend."""

import asyncio
from collections.abc import Callable
from uuid import uuid4

import pyarrow as pa
import pytest

import strandline as sl
from strandline.predicates import PredicateError, PredicateEvalError
from tests.typed.rows import SCHEMA, batches, drain, ids, offsets, rows, take

OpenAgain = Callable[[], sl.Log]


def test_a_live_reader_gets_the_batches_that_match(log: sl.Log) -> None:
    """TC1."""
    scope = log.scope()
    scope.register("orders", SCHEMA)
    with scope.subscribe("orders", where="kind = 'X'") as subscription:
        for number in range(100):
            many = range(number * 10, number * 10 + 10)
            scope.publish("orders", rows(*many, kind="XY"[number % 2]))

        delivered = drain(subscription)

    assert offsets(delivered) == list(range(0, 100, 2))
    assert {kind for each in batches(delivered) for kind in each["kind"].to_pylist()} == {"X"}
    assert {batch.num_rows for batch in batches(delivered)} == {10}


@pytest.mark.slow
def test_readers_of_different_rows_get_theirs(log: sl.Log) -> None:
    """TC3."""
    scope = log.scope()
    scope.register("orders", SCHEMA)
    readers = [scope.subscribe("orders", where=f"kind = '{kind}'") for kind in "XY"]
    for number in range(100):
        scope.publish("orders", rows(number, kind="XY"[number % 2]))

    found = [drain(each) for each in readers]

    assert [offsets(each) for each in found] == [list(range(0, 100, 2)), list(range(1, 100, 2))]


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_a_blank_predicate_matches_everything(log: sl.Log, blank: str) -> None:
    """TC7."""
    scope = log.scope()
    scope.register("orders", SCHEMA)
    with scope.subscribe("orders", where=blank) as subscription:
        for number in range(5):
            scope.publish("orders", rows(number))

        assert [batch.num_rows for batch in batches(drain(subscription))] == [1] * 5


def test_a_replay_gives_the_rows_that_match(log: sl.Log) -> None:
    """TC13."""
    scope = log.scope()
    scope.register("orders", SCHEMA)
    scope.publish("orders", rows(1, kind="X"))
    scope.publish("orders", rows(2, kind="Y"))

    delivered = list(scope.replay("orders", 0, where="kind = 'X'"))

    assert offsets(delivered) == [0]
    assert ids(delivered) == [1]


def test_rows_that_match_keep_their_numbers(log: sl.Log) -> None:
    scope = log.scope()
    scope.register("orders", SCHEMA)
    scope.publish("orders", rows(5, 6, 7, 8, 9))

    [delivered] = scope.replay("orders", 0, where="id % 2 = 1")

    assert isinstance(delivered, sl.DeliveredBatch)
    assert delivered.batch["id"].to_pylist() == [5, 7, 9]
    assert delivered.rows.to_pylist() == [0, 2, 4]


def test_events_are_picked_by_what_they_are(log: sl.Log) -> None:
    log.create_topic("clicks")
    scope = log.scope("alice")
    scope.publish("clicks", sl.Event("click", {}, key="a", headers={"page": "home"}))
    scope.publish("clicks", sl.Event("click", {}, key="b"))
    scope.publish("clicks", sl.Event("scroll", {}, key="a"))

    picked = scope.replay("clicks", 0, where="kind = 'click' AND headers['page'] = 'home'")

    assert offsets(picked) == [0]
    assert offsets(scope.replay("clicks", 0, where="key = 'a'")) == [0, 2]


def test_a_bad_predicate_is_refused_when_it_is_given(log: sl.Log) -> None:
    scope = log.scope()
    scope.register("orders", SCHEMA)
    log.create_topic("raw", value_kind=sl.ValueKind.BYTES)

    for text in ("colour = 'X'", "id + 1", "((("):
        with pytest.raises(PredicateError):
            scope.subscribe("orders", where=text)
    with pytest.raises(sl.InvalidError, match="topic with a schema"):
        scope.replay("raw", 0, where="kind = 'X'")


def test_a_predicate_never_meets_a_row_of_another_tenants(log: sl.Log) -> None:
    shared_scope, alice, bob = log.scope(), log.scope("alice"), log.scope("bob")
    shared_scope.register("orders", SCHEMA)
    bob.publish("orders", rows(0))
    alice.publish("orders", rows(4))

    assert ids(alice.replay("orders", 0, where="8 / id = 2")) == [4]
    with pytest.raises(PredicateEvalError):
        list(bob.replay("orders", 0, where="8 / id = 2"))


def test_a_predicate_that_fails_on_a_row_stays_there(log: sl.Log) -> None:
    scope = log.scope()
    scope.register("orders", SCHEMA)
    for number in (8, 0, 4):
        scope.publish("orders", rows(number))
    subscription = scope.subscribe("orders", start=0, where="8 / id >= 1")

    assert offsets(take(subscription, 1)) == [0]
    for _ in range(2):
        with pytest.raises(PredicateEvalError):
            subscription.next(0.0)
    assert offsets(scope.replay("orders", 2, where="8 / id >= 1")) == [2]


@pytest.mark.slow
def test_history_is_replayed_in_full_to_a_later_subscription(open_again: OpenAgain) -> None:
    """TC2."""
    first = open_again().scope()
    first.register("orders", SCHEMA)
    for number in range(100):
        first.publish("orders", rows(number))

    with open_again().scope().subscribe("orders", start=0) as subscription:
        delivered = take(subscription, 100)

    assert offsets(delivered) == list(range(100))
    assert ids(delivered) == list(range(100))


def test_a_tenant_finds_its_own_topic_and_not_anothers(log: sl.Log) -> None:
    """TC4."""
    alice, bob = log.scope("alice"), log.scope("bob")
    mine = alice.register("alice-orders", SCHEMA)
    bob.register("bob-orders", SCHEMA)

    with pytest.raises(sl.InvalidError, match="no such topic"):
        alice.topic("bob-orders")
    with pytest.raises(sl.InvalidError, match="no such topic"):
        log.scope().topic("alice-orders")

    assert alice.topic("alice-orders") == mine
    assert alice.topics() == [mine]
    assert log.scope().topics() == []


def test_a_batch_of_another_schema_is_refused_and_nothing_is_stored(log: sl.Log) -> None:
    """TC5."""
    scope = log.scope()
    scope.register("orders", SCHEMA)
    narrow = rows(1).select(["id"])

    with pytest.raises(sl.SchemaMismatchError):
        scope.publish("orders", narrow)

    with scope.subscribe("orders", start=0, markers=True) as subscription:
        assert isinstance(subscription.next(0.0), sl.CaughtUp)
        assert subscription.next(0.0) is None


@pytest.mark.slow
def test_a_reader_that_is_slower_than_its_publisher_misses_nothing(log: sl.Log) -> None:
    """TC6."""
    scope = log.scope()
    scope.register("orders", SCHEMA)
    with scope.subscribe("orders", read_ahead=4) as subscription:
        for number in range(200):
            scope.publish("orders", rows(number))

        assert offsets(take(subscription, 200)) == list(range(200))


def test_a_topic_is_listed_as_it_was_registered_until_it_is_dropped(log: sl.Log) -> None:
    """TC8."""
    scope = log.scope("alice")
    made = scope.register("orders", SCHEMA, metadata={"retention_seconds": "3600", "owner": "ops"})

    [listed] = scope.topics()

    assert (listed.name, listed.id, listed.tenant) == ("orders", made.id, "alice")
    assert listed.id.version == 7
    assert len(listed.schema) == 3
    assert listed.metadata == {"owner": "ops", "retention_seconds": "3600"}
    assert log.describe_topic(listed.topic).settings.retention_age_s == 3600

    scope.drop(made.id)
    assert scope.topics() == []


def test_dropping_what_is_not_there_is_an_error(log: sl.Log) -> None:
    """TC9."""
    with pytest.raises(sl.InvalidError, match="no such topic"):
        log.scope().drop(uuid4())


def test_a_topic_is_dropped_by_its_owner_alone(log: sl.Log) -> None:
    alice, bob, shared_scope = log.scope("alice"), log.scope("bob"), log.scope()
    mine, shared = alice.register("orders", SCHEMA), shared_scope.register("prices", SCHEMA)

    for scope, topic in ((bob, mine), (shared_scope, mine), (alice, shared)):
        with pytest.raises(sl.InvalidError, match="no such topic"):
            scope.drop(topic.id)

    alice.drop(mine.id)
    shared_scope.drop(shared.id)
    assert alice.topics() == []


def test_a_replay_ends_where_the_topic_ended(log: sl.Log) -> None:
    """TC11."""
    scope = log.scope()
    scope.register("orders", SCHEMA)
    scope.publish("orders", rows(1, 2))
    scope.publish("orders", rows(3))

    replay = scope.replay("orders", 0)
    scope.publish("orders", rows(4))

    delivered = list(replay)
    assert offsets(delivered) == [0, 1]
    assert ids(delivered) == [1, 2, 3]


def test_a_replay_from_now_on_is_empty(log: sl.Log) -> None:
    """TC12. What is "from none" there is LATEST here."""
    scope = log.scope()
    scope.register("orders", SCHEMA)
    for number in range(3):
        scope.publish("orders", rows(number))

    assert list(scope.replay("orders", sl.LATEST)) == []


def test_rows_of_a_shared_topic_are_seen_by_their_tenant_and_global_ones_by_all(
    log: sl.Log,
) -> None:
    """TC14."""
    alice, bob, shared_scope = log.scope("alice"), log.scope("bob"), log.scope()
    shared_scope.register("orders", SCHEMA)
    alice.publish("orders", rows(1))
    bob.publish("orders", rows(2))
    shared_scope.publish("orders", rows(3))

    assert ids(alice.replay("orders", 0)) == [1, 3]
    assert ids(bob.replay("orders", 0)) == [2, 3]
    assert ids(shared_scope.replay("orders", 0)) == [3]
    assert [each.tenant for each in alice.replay("orders", 0)] == ["alice", None]


def test_a_live_reader_sees_the_same_rows(log: sl.Log) -> None:
    """TC15."""
    alice, bob, shared_scope = log.scope("alice"), log.scope("bob"), log.scope()
    shared_scope.register("orders", SCHEMA)
    readers = [scope.subscribe("orders") for scope in (alice, bob, shared_scope)]
    alice.publish("orders", rows(10))
    bob.publish("orders", rows(20))
    alice.publish("orders", rows(11))

    assert [ids(drain(each)) for each in readers] == [[10, 11], [20], []]


def test_a_pinned_topic_takes_its_own_tenants_batches_alone(log: sl.Log) -> None:
    """TC16."""
    alice = log.scope("alice")
    mine = alice.register("orders", SCHEMA)

    for scope, tenant in ((log.scope("bob"), "bob"), (log.scope(), None)):
        with pytest.raises(sl.TenantMismatchError) as caught:
            scope.publish(mine, rows(1))
        assert (caught.value.topic, caught.value.topic_tenant) == ("orders", "alice")
        assert caught.value.publish_tenant == tenant

    assert list(alice.replay("orders", 0)) == []
    assert alice.publish(mine, rows(1)).offset == 0


def test_consumers_show_what_each_was_given_and_acked(log: sl.Log) -> None:
    """TC17."""
    scope = log.scope()
    scope.register("orders", SCHEMA)
    first = scope.subscribe("orders", consumer="billing")
    second = scope.subscribe("orders", consumer="shipping")
    for number in range(3):
        scope.publish("orders", rows(number))
    last = take(first, 3)[-1]
    take(second, 3)

    assert first.ack(last) == 3
    found = {each.consumer: each for each in scope.consumers("orders")}
    assert (found["billing"].delivered, found["billing"].acked, found["billing"].lag) == (2, 2, 0)
    assert (found["shipping"].delivered, found["shipping"].acked) == (2, None)

    second.close()
    assert [each.consumer for each in scope.consumers("orders")] == ["billing"]


def test_a_consumer_continues_behind_what_it_acked(open_again: OpenAgain) -> None:
    scope = open_again().scope("alice")
    scope.register("orders", SCHEMA)
    for number in range(5):
        scope.publish("orders", rows(number))
    with scope.subscribe("orders", start=0, consumer="billing") as subscription:
        subscription.ack(take(subscription, 2)[-1])

    again = open_again().scope("alice")
    with again.subscribe("orders", consumer="billing") as subscription:
        assert offsets(drain(subscription)) == [2, 3, 4]


def test_only_a_consumer_acks(log: sl.Log) -> None:
    scope = log.scope()
    scope.register("orders", SCHEMA)
    scope.publish("orders", rows(1))
    with scope.subscribe("orders", start=0) as subscription:
        [delivered] = take(subscription, 1)
        with pytest.raises(sl.InvalidError, match="consumer"):
            subscription.ack(delivered)


async def follow(log: sl.Log) -> list[int]:
    """Read five batches on the running loop."""
    scope = sl.AsyncLog(log).scope()
    seen: list[int] = []
    async for delivered in scope.subscribe("orders", start=sl.EARLIEST):
        seen.append(delivered.offset)
        if len(seen) == 5:
            break
    return seen


def test_a_loop_reads_the_same(log: sl.Log) -> None:
    scope = log.scope()
    scope.register("orders", SCHEMA)
    for number in range(5):
        scope.publish("orders", rows(number))

    assert asyncio.run(follow(log)) == [0, 1, 2, 3, 4]


def test_event_topics_keep_tenants_apart_just_so(log: sl.Log) -> None:
    log.create_topic("clicks")
    alice, bob = log.scope("alice"), log.scope("bob")
    alice.publish("clicks", sl.Event("click", {"at": 1}))
    bob.publish("clicks", sl.Event("click", {"at": 2}))

    [record] = alice.replay("clicks", 0)

    assert isinstance(record, sl.Record)
    assert (record.payload, record.tenant, record.offset) == ({"at": 1}, "alice", 0)
    assert not alice.topic("clicks").is_typed


def test_a_batch_is_no_event(log: sl.Log) -> None:
    scope = log.scope()
    scope.register("orders", SCHEMA)

    with pytest.raises(sl.InvalidError, match="holds batches"):
        scope.publish("orders", sl.Event("order", {}))


def test_a_start_may_be_a_time(log: sl.Log) -> None:
    scope = log.scope()
    scope.register("orders", SCHEMA)
    scope.publish("orders", rows(1))
    [first] = scope.replay("orders", 0)

    assert offsets(scope.replay("orders", first.timestamp)) == [0]


def test_publishing_the_same_once_more_adds_nothing(log: sl.Log) -> None:
    scope = log.scope()
    scope.register("orders", SCHEMA, partitions=3)
    first = scope.publish("orders", rows(1), idempotency_key="order-1")
    again = scope.publish("orders", rows(1), idempotency_key="order-1")

    assert again.is_repeat
    assert (first.partition, first.offset) == (again.partition, again.offset)
    assert ids(scope.replay("orders", sl.EARLIEST)) == [1]


def test_dictionaries_are_decoded(log: sl.Log) -> None:
    coded = pa.schema([pa.field("kind", pa.dictionary(pa.int8(), pa.string()))])
    batch = pa.RecordBatch.from_pylist([{"kind": "a"}, {"kind": "b"}, {"kind": "a"}], schema=coded)
    scope = log.scope()
    made = scope.register("kinds", coded)
    scope.publish("kinds", batch)
    scope.publish("kinds", batch.cast(pa.schema([pa.field("kind", pa.string())])))

    assert made.schema.field("kind").type == pa.string()
    for delivered in scope.replay("kinds", 0):
        assert isinstance(delivered, sl.DeliveredBatch)
        assert delivered.batch.to_pydict() == {"kind": ["a", "b", "a"]}
        assert delivered.batch.schema == made.schema
