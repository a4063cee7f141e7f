"""An unreadable schema is refused, and a stored one affects its topic alone."""

import base64
from collections.abc import Callable
from unittest import mock

import pyarrow as pa
import pytest

import strandline as sl
from strandline.log import topics
from strandline.values.internal_topics import SCHEMAS_TOPIC

OpenAgain = Callable[[], sl.Log]
PLAIN = pa.schema([("id", pa.int64())])


class Tagged(pa.ExtensionType):  # type: ignore[misc]
    """A type of a user's own."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "tests.tagged")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> "Tagged":
        return cls()


def nested(levels: int) -> pa.Schema:
    kind = pa.int64()
    for _ in range(levels):
        kind = pa.struct([("a", kind)])
    return pa.schema([("a", kind)])


REFUSED = {
    "49 levels": nested(49),
    "130 levels": nested(130),
    "2000 levels": nested(2000),
    "extension type": pa.schema([("a", Tagged())]),
    "extension in a list": pa.schema([("a", pa.list_(Tagged()))]),
    "no time zone": pa.schema([("a", pa.timestamp("us", "Nowhere/Bad"))]),
    "path as a time zone": pa.schema([("a", pa.timestamp("us", "../../etc/passwd"))]),
    "empty name": pa.schema([("", pa.int64())]),
    "name that is no text": pa.schema([pa.field(b"\xff", pa.int64())]),
    "name within that is no text": pa.schema([("a", pa.struct([pa.field(b"\xff", pa.int64())]))]),
}


@pytest.mark.parametrize("schema", REFUSED.values(), ids=REFUSED)
def test_a_schema_that_is_refused_leaves_nothing_behind(log: sl.Log, schema: pa.Schema) -> None:
    scope = log.scope()
    scope.register("fine", PLAIN)

    with pytest.raises(sl.InvalidError):
        scope.register("bad", schema)
    with pytest.raises(sl.InvalidError):
        scope.evolve("fine", schema)

    assert [topic.name for topic in scope.topics()] == ["fine"]
    assert [topic.name for topic in log.topics()] == ["fine"]
    assert scope.topic("fine").versions == (PLAIN,)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+05:30"])
def test_a_time_zone_that_exists_is_taken(log: sl.Log, zone: str) -> None:
    schema = pa.schema([("a", pa.timestamp("us", zone))])

    assert log.scope().register("times", schema).schema == schema


def test_a_topic_whose_schema_cannot_be_read_hides_no_other(log: sl.Log) -> None:
    scope, acme = log.scope(), log.scope("acme")
    scope.register("fine", PLAIN)
    with mock.patch.object(topics, "decode_schema", return_value=PLAIN):
        # As a version did that looked at no schema.
        log.create_topic("bad", value_kind=sl.ValueKind.BATCH, schema=b"arrow")

    assert [topic.name for topic in scope.topics()] == ["fine"]
    assert [topic.name for topic in acme.topics()] == ["fine"]
    with pytest.raises(sl.CorruptError, match="schema"):
        scope.topic("bad")
    with pytest.raises(sl.CorruptError, match="schema"):
        scope.publish("bad", pa.record_batch({"id": [1]}))
    scope.drop(log.topic("bad").id)
    assert [topic.name for topic in log.topics()] == ["fine"]


@pytest.mark.slow
def test_a_later_version_that_cannot_be_read_stops_its_topic_alone(open_again: OpenAgain) -> None:
    log = open_again()
    scope = log.scope()
    bad, _ = scope.register("bad", PLAIN), scope.register("fine", PLAIN)
    internal = log.create_topic(SCHEMAS_TOPIC, internal=True)
    content = base64.b64encode(b"arrow").decode()
    added = sl.Event("schema.added", {"topic": str(bad.id), "schema": content})
    log.append(internal, added, partition=0)

    again = open_again().scope()

    assert [topic.name for topic in again.topics()] == ["fine"]
    wider = pa.schema([*PLAIN, ("note", pa.string())])
    assert again.evolve("fine", wider).versions == (PLAIN, wider)
    with pytest.raises(sl.CorruptError, match="schema"):
        again.topic("bad")
