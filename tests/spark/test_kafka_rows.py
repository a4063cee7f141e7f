"""Rows as a job for Kafka has them: key, value and headers."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import strandline as sl
from strandline.spark.sink.settings import stream_settings
from strandline.spark.sink.staging import Stager
from strandline.values import InvalidError
from tests.spark.as_sink import Sink
from tests.spark.as_spark import table

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file:{tmp_path / 'log'}"


@pytest.fixture
def sink(log: sl.Log, url: str) -> Sink:
    log.create_topic("t")
    return Sink(log, url)


def staged(sink: Sink, rows: pa.RecordBatch, **options: Any) -> None:
    given: dict[str, Any] = {"topic": sink.topic, "tenant": None, "version": 0, "task": 0}
    stager = Stager(sink.log, sink.folder, **given, **options)
    sink.commit(0, [stager.stage([rows])])


def test_key_value_and_headers_become_an_event(sink: Sink) -> None:
    headers = [[{"key": "kind", "value": b"paid"}, {"key": "shop", "value": b"north"}], None]
    rows = pa.record_batch(
        [
            pa.array([b"k1", None], pa.binary()),
            pa.array([b'{"n": 1}', None], pa.binary()),
            pa.array(headers, HEADERS),
        ],
        ["key", "value", "headers"],
    )

    staged(sink, rows, event_kind="other")

    first, second = sink.log.read("t", 0, 0)
    assert (first.kind, first.key, first.payload) == ("paid", "k1", {"n": 1})
    assert first.headers == {"shop": "north"}
    assert (second.kind, second.key, second.payload) == ("other", None, None)


def test_what_the_source_gives_to_kafka_jobs_can_be_written_back(
    sink: Sink, url: str, log: sl.Log
) -> None:
    log.create_topic("source")
    log.append("source", sl.Event("paid", {"n": 1}, key="k", headers={"shop": "north"}))
    read = table(url, subscribe="source", valueFormat="kafka", includeHeaders="true")

    (batch,) = read.select(["key", "value", "headers"]).to_batches()
    staged(sink, batch)

    (found,), (wanted,) = log.read("t", 0, 0), log.read("source", 0, 0)
    assert found.value == wanted.value


def test_an_event_without_a_kind_is_refused_with_what_to_do(sink: Sink) -> None:
    rows = pa.record_batch({"key": ["k"], "value": ["{}"]})

    with pytest.raises(InvalidError, match="option kind"):
        staged(sink, rows)
    with pytest.raises(InvalidError, match="select those that it has"):
        staged(sink, rows.append_column("partition", pa.array([0])), event_kind="k")


def test_a_null_value_of_a_bytes_topic_is_an_empty_one(sink: Sink, log: sl.Log) -> None:
    log.create_topic("b", value_kind="bytes")
    sink.topic = "b"
    rows = pa.record_batch({"key": ["a", "a"], "value": pa.array([b"1", None], pa.binary())})

    staged(sink, rows)

    assert [(each.key, each.value) for each in log.read("b", 0, 0)] == [("a", b"1"), ("a", b"")]
    with pytest.raises(InvalidError, match="without a key"):
        staged(sink, pa.record_batch({"value": pa.array([None], pa.binary())}))


def test_rows_of_a_whole_result_have_keys(sink: Sink, url: str) -> None:
    given = {"path": url, "topic": "t"}
    assert stream_settings(given, ["kind", "key"], is_complete=True).is_upsert
    with pytest.raises(InvalidError, match="column key"):
        stream_settings(given, ["kind", "payload"], is_complete=True)

    rows = pa.record_batch({"kind": ["n", "n"], "key": ["a", None]})
    with pytest.raises(InvalidError, match="some rows have no key"):
        staged(sink, rows, is_upsert=True)
    staged(sink, rows.slice(0, 1), is_upsert=True)
    assert [each.key for each in sink.log.read("t", 0, 0)] == ["a"]
