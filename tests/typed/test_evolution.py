"""How the schema of a topic changes, and what readers of either version see; on every backend."""

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

import strandline as sl
from tests.typed.rows import PATIENCE_S, SCHEMA, batches, drain, rows, take

OpenAgain = Callable[[], sl.Log]

NARROW = pa.schema([pa.field("n", pa.int8(), nullable=False), pa.field("x", pa.float32())])
WIDE = pa.schema(
    [
        pa.field("n", pa.int32(), nullable=False),
        pa.field("x", pa.float64()),
        pa.field("note", pa.string()),
    ]
)


def of(schema: pa.Schema, *found: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(found), schema=schema)


def test_readers_see_the_newest_version_or_the_one_they_ask_for(open_again: OpenAgain) -> None:
    scope = open_again().scope()
    first = scope.register("numbers", NARROW)
    scope.publish("numbers", of(NARROW, {"n": 1, "x": 0.5}))
    second = scope.evolve("numbers", WIDE)
    scope.publish("numbers", of(WIDE, {"n": 70_000, "x": 0.25, "note": "new"}))
    scope.publish("numbers", of(NARROW, {"n": 2, "x": None}))

    assert (first.versions, second.versions) == ((NARROW,), (NARROW, WIDE))
    other = open_again().scope()
    newest = batches(other.replay("numbers", 0))
    assert {batch.schema for batch in newest} == {WIDE}
    assert [batch.to_pylist() for batch in newest] == [
        [{"n": 1, "x": 0.5, "note": None}],
        [{"n": 70_000, "x": 0.25, "note": "new"}],
        [{"n": 2, "x": None, "note": None}],
    ]
    pinned = other.replay("numbers", 2, version=1)
    assert [batch.schema for batch in batches(pinned)] == [NARROW]


def test_a_column_that_stays_is_handed_on_as_it_is(log: sl.Log) -> None:
    """Arrow casts half floats to none of their own kind."""
    halves = pa.schema([pa.field("x", pa.float16())])
    scope = log.scope()
    scope.register("halves", halves)
    scope.publish("halves", of(halves, {"x": 1.5}))
    scope.evolve("halves", halves.append(pa.field("note", pa.string())))

    assert [each.to_pylist() for each in batches(scope.replay("halves", 0))] == [
        [{"x": 1.5, "note": None}]
    ]


@pytest.mark.parametrize("row", [{"n": 70_000, "x": 0.5}, {"n": 1, "x": 0.1}])
def test_a_number_that_an_old_version_cannot_hold_is_an_error_there(
    log: sl.Log, row: dict[str, Any]
) -> None:
    scope = log.scope()
    scope.register("numbers", NARROW)
    scope.evolve("numbers", WIDE)
    scope.publish("numbers", of(WIDE, {"n": 1, "x": float("nan")}))
    scope.publish("numbers", of(WIDE, row))

    replay = scope.replay("numbers", 0, version=1)

    next(replay)
    with pytest.raises(sl.SchemaMismatchError, match="does not fit"):
        next(replay)


def test_a_live_reader_moves_on_with_the_schema(open_again: OpenAgain) -> None:
    scope, other = open_again().scope(), open_again().scope()
    scope.register("numbers", NARROW)
    newest, pinned = other.subscribe("numbers"), other.subscribe("numbers", version=1)
    scope.publish("numbers", of(NARROW, {"n": 1}))
    scope.evolve("numbers", WIDE)
    scope.publish("numbers", of(WIDE, {"n": 2}))
    scope.publish("numbers", of(NARROW, {"n": 3}))

    assert [batch.schema for batch in batches(take(newest, 3))] == [NARROW, WIDE, WIDE]
    assert [batch.schema for batch in batches(take(pinned, 3))] == [NARROW] * 3


def test_a_predicate_moves_on_with_the_schema(log: sl.Log) -> None:
    scope = log.scope()
    scope.register("numbers", NARROW)
    stream = scope.subscribe("numbers", where="n > 1")
    scope.publish("numbers", of(NARROW, {"n": 2}))
    assert [batch["n"].to_pylist() for batch in batches(take(stream, 1))] == [[2]]
    scope.evolve("numbers", WIDE)
    scope.publish("numbers", of(WIDE, {"n": 70_000, "note": "x"}, {"n": 0}))

    assert [batch["n"].to_pylist() for batch in batches(take(stream, 1))] == [[70_000]]
    noted = scope.replay("numbers", 0, where="note IS NOT NULL")
    assert [batch["n"].to_pylist() for batch in batches(noted)] == [[70_000]]


def test_a_publisher_sees_a_version_that_another_has_added(open_again: OpenAgain) -> None:
    scope, other = open_again().scope(), open_again().scope()
    known = scope.register("numbers", NARROW)
    other.evolve("numbers", WIDE)

    assert scope.publish(known, of(WIDE, {"n": 1})).offset == 0


WIDENED = [
    *[(pa.int8(), wide) for wide in (pa.int16(), pa.int32(), pa.int64())],
    *[(pa.int16(), wide) for wide in (pa.int32(), pa.int64())],
    (pa.int32(), pa.int64()),
    *[(pa.uint8(), wide) for wide in (pa.uint16(), pa.uint32(), pa.uint64())],
    *[(pa.uint8(), wide) for wide in (pa.int16(), pa.int32(), pa.int64())],
    *[(pa.uint16(), wide) for wide in (pa.uint32(), pa.uint64(), pa.int32(), pa.int64())],
    *[(pa.uint32(), wide) for wide in (pa.uint64(), pa.int64())],
    *[(pa.float16(), wide) for wide in (pa.float32(), pa.float64())],
    (pa.float32(), pa.float64()),
    (pa.decimal128(5, 2), pa.decimal128(9, 2)),
    (pa.decimal128(5, 2), pa.decimal128(9, 4)),
    (pa.decimal32(5, 2), pa.decimal128(5, 2)),
]


@pytest.mark.parametrize(("old", "new"), WIDENED, ids=str)
def test_a_number_may_widen(old: pa.DataType, new: pa.DataType) -> None:
    with sl.open("memory:") as log:
        scope = log.scope()
        scope.register("numbers", pa.schema([pa.field("n", old)]))
        scope.publish("numbers", pa.RecordBatch.from_arrays([pa.array([3, None], old)], ["n"]))

        scope.evolve("numbers", pa.schema([pa.field("n", new)]))

        [batch] = batches(scope.replay("numbers", 0))
        assert batch.schema.field("n").type == new
        assert batch.column("n").to_pylist() == [3, None]


CONFLICTS: list[tuple[list[pa.Field], str]] = [
    ([pa.field("n", pa.int8(), nullable=False)], "x: missing, float in the topic"),
    ([NARROW.field("n"), pa.field("x", pa.int64())], "x: int64 given, float in the topic"),
    ([NARROW.field("n"), pa.field("x", pa.float16())], "x: halffloat given, float in the topic"),
    ([pa.field("n", pa.int8()), NARROW.field("x")], "n: int8 given, int8 not null in the topic"),
    ([pa.field("n", pa.uint8(), nullable=False), NARROW.field("x")], "n: uint8 not null given"),
    ([*NARROW, pa.field("y", pa.int8(), nullable=False)], "y: an added column must be nullable"),
    ([NARROW.field("n"), pa.field("y", pa.int8()), NARROW.field("x")], "come after the others"),
    ([NARROW.field("x"), NARROW.field("n")], "the order of columns"),
]


@pytest.mark.parametrize(("fields", "sentence"), CONFLICTS, ids=lambda each: str(each)[:30])
def test_anything_else_is_a_conflict_that_lists_what_differs(
    log: sl.Log, fields: list[pa.Field], sentence: str
) -> None:
    scope = log.scope()
    scope.register("numbers", NARROW)

    with pytest.raises(sl.SchemaConflictError) as caught:
        scope.evolve("numbers", pa.schema(fields))

    assert any(sentence in each for each in caught.value.differences), caught.value.differences
    assert isinstance(caught.value, sl.ConflictError)
    assert scope.topic("numbers").versions == (NARROW,)


def test_registering_the_same_is_no_error_and_anything_else_is(open_again: OpenAgain) -> None:
    scope = open_again().scope()
    made = scope.register("orders", SCHEMA, metadata={"owner": "ops"}, partitions=2)
    again = open_again().scope()
    assert again.register("orders", SCHEMA, metadata={"owner": "ops"}, partitions=2) == made

    with pytest.raises(sl.SchemaConflictError) as caught:
        again.register("orders", NARROW, metadata={"owner": "dev"}, partitions=3)

    told = caught.value.differences
    assert "n: int8 not null is not in the topic" in told
    assert "id: missing, int64 not null in the topic" in told
    assert "partitions: 3 given, 2 in the topic" in told
    assert "metadata owner: 'dev' given, 'ops' in the topic" in told


def test_a_process_that_starts_with_any_version_finds_the_topic(open_again: OpenAgain) -> None:
    scope = open_again().scope()
    scope.register("numbers", NARROW)
    evolved = scope.evolve("numbers", WIDE)
    log = open_again()
    log.change_retention("numbers", retention_age_s=60, retention_bytes=None)

    assert log.scope().register("numbers", NARROW) == evolved
    assert log.scope().register("numbers", WIDE) == evolved
    assert log.scope().evolve("numbers", NARROW) == evolved


def test_a_topic_of_events_has_no_schema_to_register(log: sl.Log) -> None:
    log.create_topic("orders")

    with pytest.raises(sl.SchemaConflictError, match="event"):
        log.scope().register("orders", SCHEMA)
    with pytest.raises(sl.InvalidError, match="no schema"):
        log.scope().evolve("orders", SCHEMA)


def test_a_global_schema_is_changed_in_the_global_scope_alone(log: sl.Log) -> None:
    log.scope().register("numbers", NARROW)

    with pytest.raises(sl.InvalidError, match="tenant that registered"):
        log.scope("alice").evolve("numbers", WIDE)


def test_of_two_that_race_one_wins_and_the_other_follows_from_it(open_again: OpenAgain) -> None:
    open_again().scope().register("wide", pa.schema([pa.field("n", pa.int64())]))
    adders = 4
    outcomes: list[str] = []
    gate = threading.Barrier(adders)

    def add(scope: sl.Scope, number: int) -> None:
        gate.wait(PATIENCE_S)
        while True:
            known = scope.topic("wide").schema
            try:
                scope.evolve("wide", known.append(pa.field(f"c{number}", pa.int8())))
            except sl.SchemaConflictError:
                outcomes.append("again")
                continue
            outcomes.append("done")
            return

    threads = [
        threading.Thread(target=add, args=(open_again().scope(), number))
        for number in range(adders)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)

    versions = open_again().scope().topic("wide").versions
    assert outcomes.count("done") == adders
    assert len(versions) == adders + 1
    for older, newer in pairwise(versions):
        assert newer.names[:-1] == older.names


def test_a_record_that_went_past_the_schema_is_named(log: sl.Log) -> None:
    scope = log.scope()
    made = scope.register("orders", SCHEMA)
    log.append(made.topic, rows(1).select(["id"]))

    with pytest.raises(sl.SchemaMismatchError, match="offset=0"):
        list(scope.replay("orders", 0))
    subscription = scope.subscribe("orders", start=0)
    for _ in range(2):
        with pytest.raises(sl.SchemaMismatchError):
            subscription.next(0.0)
    assert drain(scope.subscribe("orders", start=1)) == []


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "1h", "٣", "9" * 30])
def test_a_retention_is_a_whole_number_of_seconds(log: sl.Log, text: str) -> None:
    with pytest.raises(sl.InvalidError):
        log.scope().register("orders", SCHEMA, metadata={"retention_seconds": text})

    assert log.scope().topics() == []
