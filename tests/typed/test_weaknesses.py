"""Known mistakes of the reference that typed topics do not make, on every backend."""

import threading
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pyarrow as pa
import pytest

import strandline as sl
from strandline.log import Hint
from tests.typed.rows import PATIENCE_S, SCHEMA, drain, ids, offsets, rows, take

OpenAgain = Callable[[], sl.Log]


class Deaf:
    """A watch whose hints are all lost."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def wait(self, timeout_s: float | None = None) -> Collection[Hint]:
        self._inner.wait(timeout_s)
        return ()


@pytest.mark.slow
def test_a_reader_that_attaches_while_others_publish_skips_nothing(open_again: OpenAgain) -> None:
    """WC1: what is published between the replay and the live tail is in one of them."""
    scope = open_again().scope()
    scope.register("orders", SCHEMA)
    publisher = threading.Thread(
        target=lambda: [scope.publish("orders", rows(number)) for number in range(150)]
    )
    seen: list[list[int]] = []

    def follow(reader: sl.Scope) -> None:
        with reader.subscribe("orders", start=0) as subscription:
            seen.append(offsets(take(subscription, 150)))

    followers = [threading.Thread(target=follow, args=(open_again().scope(),)) for _ in range(3)]
    for thread in (followers[0], publisher, *followers[1:]):
        thread.start()
    for thread in (publisher, *followers):
        thread.join(PATIENCE_S)

    assert seen == [list(range(150))] * 3


def test_a_lost_wake_up_costs_time_and_no_record(
    log: sl.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WC2: also the last record is found without a hint."""
    scope = log.scope()
    scope.register("orders", SCHEMA)
    watch = log.watch
    monkeypatch.setattr(log, "watch", lambda **options: Deaf(watch(**options)))
    with scope.subscribe("orders") as subscription:
        for number in range(3):
            scope.publish("orders", rows(number))

        assert offsets(take(subscription, 3)) == [0, 1, 2]


def test_a_reader_that_falls_behind_reads_on_where_it_was(log: sl.Log) -> None:
    """WC3: lag ends no stream, and is reported as an offset."""
    scope = log.scope()
    scope.register("orders", SCHEMA)
    with scope.subscribe("orders", markers=True, read_ahead=2) as subscription:
        assert isinstance(subscription.next(0.0), sl.CaughtUp)
        for number in range(50):
            scope.publish("orders", rows(number))

        items = list(iter(lambda: subscription.next(0.0), None))

    behind = [each for each in items if isinstance(each, sl.FellBehind)]
    assert behind[0].last is None
    assert ids(each for each in items if isinstance(each, sl.DeliveredBatch)) == list(range(50))


def test_publishers_share_a_topic(open_again: OpenAgain) -> None:
    """WC4: the log gives the offsets, so any number of publishers have none in common."""
    open_again().scope().register("orders", SCHEMA)
    given: list[int] = []

    def publish(scope: sl.Scope) -> None:
        given.extend(scope.publish("orders", rows(n)).offset for n in range(40))

    publishers = [threading.Thread(target=publish, args=(open_again().scope(),)) for _ in range(3)]
    for thread in publishers:
        thread.start()
    for thread in publishers:
        thread.join(PATIENCE_S)

    assert sorted(given) == list(range(120))
    assert offsets(open_again().scope().replay("orders", 0)) == list(range(120))


def test_a_batch_without_rows_takes_no_offset(log: sl.Log) -> None:
    """WC5."""
    scope = log.scope()
    scope.register("orders", SCHEMA)

    with pytest.raises(sl.InvalidError, match="at least one row"):
        scope.publish("orders", rows())

    assert scope.publish("orders", rows(1)).offset == 0


def test_the_rows_of_a_batch_keep_their_order(log: sl.Log) -> None:
    """WC6: by offset, and within it by number."""
    scope = log.scope()
    scope.register("orders", SCHEMA)
    shuffled = [number * 7919 % 1000 for number in range(1000)]
    scope.publish("orders", rows(*shuffled))
    scope.publish("orders", rows(5, 4, 3))

    delivered = list(scope.replay("orders", 0))

    assert ids(delivered) == [*shuffled, 5, 4, 3]
    assert isinstance(delivered[0], sl.DeliveredBatch)
    assert delivered[0].rows.to_pylist() == list(range(1000))


@pytest.mark.parametrize("name", ["_offset", "_row_idx", "_", "__x", "tenant_id", "Tenant_ID"])
def test_reserved_columns_are_refused(log: sl.Log, name: str) -> None:
    """WC8."""
    scope = log.scope()

    with pytest.raises(sl.UnsupportedTypeError, match="reserved") as caught:
        scope.register("orders", pa.schema([pa.field(name, pa.int64())]))

    assert caught.value.column == name
    assert scope.topics() == []


def test_a_name_is_one_global_topic_and_a_tenants_own_wins(open_again: OpenAgain) -> None:
    """WC9."""
    shared_scope, alice, bob = (open_again().scope(each) for each in (None, "alice", "bob"))
    shared = shared_scope.register("orders", SCHEMA)
    assert open_again().scope().register("orders", SCHEMA) == shared
    with pytest.raises(sl.SchemaConflictError):
        shared_scope.register("orders", pa.schema([pa.field("id", pa.int64())]))

    own = alice.register("orders", pa.schema([pa.field("note", pa.string())]))

    assert own.id != shared.id
    assert (alice.topic("orders"), bob.topic("orders")) == (own, shared)
    assert [each.id for each in alice.topics()] == [shared.id, own.id]
    alice.publish("orders", pa.RecordBatch.from_pydict({"note": ["mine"]}, own.schema))
    assert [each.offset for each in bob.replay("orders", 0)] == []

    alice.drop(own.id)
    assert alice.topic("orders") == shared


def test_nothing_delivered_is_distinguished_from_the_first_delivered(log: sl.Log) -> None:
    """WC11: and what is acked is a separate number."""
    scope = log.scope()
    scope.register("orders", SCHEMA)
    with scope.subscribe("orders", consumer="billing") as subscription:
        scope.publish("orders", rows(1))
        scope.publish("orders", rows(2))

        [before] = scope.consumers("orders")
        [delivered] = take(subscription, 1)
        [given] = scope.consumers("orders")
        subscription.ack(delivered)
        [acked] = scope.consumers("orders")

    assert (before.delivered, before.acked, before.lag) == (None, None, 2)
    assert (given.delivered, given.acked, given.lag) == (0, None, 1)
    assert (acked.delivered, acked.acked, acked.lag) == (0, 0, 1)


@pytest.mark.parametrize("name", ["", " ", "a b", "-a", "..", "ümlaut", 7, b"alice", "a" * 201])
def test_a_bad_tenant_is_not_taken_for_none_either(log: sl.Log, name: Any) -> None:
    """WC12: refused, and never taken for no tenant."""
    with pytest.raises(sl.InvalidError):
        log.scope(name)


@pytest.mark.slow
def test_a_replay_holds_one_page_at_a_time(log: sl.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """WC13: the first delivery comes before the rest is read."""
    scope = log.scope()
    scope.register("orders", SCHEMA)
    for number in range(600):
        scope.publish("orders", rows(number))
    read, reads = log.read, []

    def counted(*args: Any, **options: Any) -> Iterator[sl.Record]:
        for record in read(*args, **options):
            reads.append(record.offset)
            yield record

    monkeypatch.setattr(log, "read", counted)
    replay = scope.replay("orders", 0)

    assert next(replay).offset == 0
    assert len(reads) <= 128
    assert offsets(replay) == list(range(1, 600))


def test_a_mismatch_lists_every_field_that_differs(log: sl.Log) -> None:
    """WC15."""
    scope = log.scope()
    scope.register("orders", SCHEMA)
    other = pa.RecordBatch.from_pydict(
        {"id": [1], "value": ["2"], "extra": [True]},
        pa.schema([("id", pa.int64()), ("value", pa.string()), ("extra", pa.bool_())]),
    )

    with pytest.raises(sl.SchemaMismatchError) as caught:
        scope.publish("orders", other)

    assert caught.value.differences == (
        "id: int64 given, int64 not null in the topic",
        "kind: missing, string not null in the topic",
        "value: string given, double in the topic",
        "extra: bool is not in the topic",
    )
    for sentence in caught.value.differences:
        assert sentence in str(caught.value)


def test_columns_in_another_order_are_another_schema(log: sl.Log) -> None:
    scope = log.scope()
    scope.register("orders", SCHEMA)

    with pytest.raises(sl.SchemaMismatchError, match="order of columns"):
        scope.publish("orders", rows(1).select(["kind", "id", "value"]))


def test_a_null_where_there_may_be_none_is_refused(log: sl.Log) -> None:
    scope = log.scope()
    scope.register("orders", SCHEMA)
    columns = [pa.array([1]), pa.array([None], pa.string()), pa.array([1.0])]

    with pytest.raises(sl.InvalidError, match="may not be null"):
        scope.publish("orders", pa.RecordBatch.from_arrays(columns, schema=SCHEMA))

    assert drain(scope.subscribe("orders", start=0)) == []
