"""Each row of the page about options of Kafka jobs is correct."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.spark import kafka_options
from strandline.spark.options import BATCH_ONLY, READ_OPTIONS, read_options
from strandline.spark.sink.settings import WRITE_OPTIONS, batch_settings
from tests.spark.as_spark import Query, fill, numbers, rows

# The planner imports PySpark.
pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "kafka-options.md"
EXAMPLES = {
    "kafka.bootstrap.servers": "broker:9092",
    "kafka.*": "20000",
    "kafka.group.id": "billing",
    "assign": '{"t": [0]}',
    "subscribe": "t",
    "subscribePattern": "t.*",
    "startingTimestamp": "0",
    "startingOffsetsByTimestamp": '{"t": {"0": 0}}',
    "startingOffsets": "earliest",
    "startingOffsetsByTimestampStrategy": "latest",
    "endingTimestamp": "99999999999999",
    "endingOffsetsByTimestamp": '{"t": {"0": 99999999999999}}',
    "endingOffsets": "latest",
    "failOnDataLoss": "false",
    "kafkaConsumer.pollTimeoutMs": "120000",
    "fetchOffset.numRetries": "3",
    "fetchOffset.retryIntervalMs": "10",
    "maxOffsetsPerTrigger": "100",
    "minOffsetsPerTrigger": "1",
    "maxTriggerDelay": "1s",
    "minPartitions": "2",
    "maxRecordsPerPartition": "2",
    "groupIdPrefix": "shop",
    "includeHeaders": "true",
}
#: What an option goes with.
BESIDES = {
    "startingOffsetsByTimestampStrategy": {"startingTimestamp": "0"},
    "maxTriggerDelay": {"minOffsetsPerTrigger": "1"},
}
CHOOSES = {"assign", "subscribe", "subscribePattern"}
STREAMS = {"maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"}


def table(title: str) -> dict[str, str]:
    """Return what the page says of each option."""
    section = PAGE.read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    found = re.findall(r"^\| (?:any other )?`([^`]+)` \| ([^|]+) \|", section, re.MULTILINE)
    return {name: said.strip() for name, said in found}


SOURCE, SINK = table("Source"), table("Sink")


@pytest.fixture(autouse=True)
def named_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_options, "_named", set())


def given(name: str) -> dict[str, Any]:
    chosen = {} if name in CHOOSES else {"subscribe": "t"}
    option = "kafka.max.poll.records" if name == "kafka.*" else name
    return {**chosen, **BESIDES.get(name, {}), option: EXAMPLES[name]}


@pytest.mark.parametrize("name", sorted(SOURCE))
def test_a_row_about_the_source_is_true(
    name: str, log: sl.Log, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    log.create_topic("t")
    fill(log, 5)
    caplog.set_level(logging.WARNING, "strandline")

    if name in STREAMS:
        query = Query(url, **given(name), startingOffsets="earliest")
        found: Any = query.next()
    else:
        found = rows(url, **given(name))

    assert numbers(found) == list(range(5))
    if SOURCE[name] == "ignored":
        assert "are ignored" in caplog.text
        assert list(given(name))[-1].lower() in caplog.text
    else:
        assert "ignored" not in caplog.text
        assert name in READ_OPTIONS


@pytest.mark.parametrize("name", sorted(SINK))
def test_a_row_about_the_sink_is_true(
    name: str, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    option = "kafka.acks" if name == "kafka.*" else name
    caplog.set_level(logging.WARNING, "strandline")

    settings = batch_settings({"path": url, "topic": "t", option: {"topic": "t"}.get(name, "true")})

    assert settings.topic == "t"
    assert ("are ignored" in caplog.text) is (SINK[name] == "ignored")
    assert SINK[name] == "ignored" or name in WRITE_OPTIONS


def test_the_page_has_every_option_of_the_source_that_there_is() -> None:
    assert SOURCE.keys() == EXAMPLES.keys()
    assert set(kafka_options.WITHOUT_MEANING) < SOURCE.keys()
    assert {*BATCH_ONLY} - {"pushdown", "timestampAsOf"} < SOURCE.keys()


def test_ignored_options_are_named_in_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    options = {"subscribe": "t", "kafka.bootstrap.servers": "b", "groupIdPrefix": "x"}
    caplog.set_level(logging.WARNING, "strandline")

    for _ in range(3):
        read_options(options)

    (only,) = caplog.records
    assert "groupidprefix, kafka.bootstrap.servers" in only.getMessage()


def test_a_group_id_of_kafka_is_the_consumer_unless_one_is_named() -> None:
    ours = read_options({"subscribe": "t", "kafka.group.id": "a", "groupId": "b"})

    assert read_options({"subscribe": "t", "kafka.group.id": "a"}).consumer == "a"
    assert ours.consumer == "b"


def test_a_misspelt_option_is_still_refused() -> None:
    with pytest.raises(sl.InvalidError, match="did you mean subscribe"):
        read_options({"subscribes": "t"})
