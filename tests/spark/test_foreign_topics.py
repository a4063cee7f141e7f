"""The source on a topic of Kafka's that other programs write, on a real broker."""

import pytest

import strandline as sl
from tests.spark.as_spark import table
from tests.stores.engines import EngineServers
from tests.stores.kafka.foreign import ForeignTopic
from tests.stores.kafka.server import KafkaServer

pytestmark = [pytest.mark.slow, pytest.mark.heavy]


@pytest.fixture
def foreign(servers: EngineServers) -> tuple[str, ForeignTopic]:
    server = servers.shared(KafkaServer)
    topic = ForeignTopic(server)
    url = server.url(topic.name.replace("-", "_"))
    with sl.open(url) as log:
        log.create_topic("payments", source=topic.name)
    return url, topic


def test_messages_are_rows_with_offsets_and_headers(foreign: tuple[str, ForeignTopic]) -> None:
    url, topic = foreign
    headers: list[tuple[str, bytes | None]] = [("trace", b"\xff"), ("trace", None)]
    topic.transact([b"0"], commit=True)  # And a marker at 1.
    topic.transact([b"2"], commit=False)  # And a marker at 3.
    topic.send([b"4", None], key=b"alice", headers=headers)

    native = table(url, subscribe="payments").to_pydict()
    assert (native["key"], native["value"]) == ([None, "alice", "alice"], [b"0", b"4", None])

    shaped = table(url, subscribe="payments", valueFormat="kafka", includeHeaders="true")
    found = shaped.to_pydict()
    assert (found["offset"], found["value"]) == ([0, 4, 5], [b"0", b"4", None])
    assert found["key"] == [None, b"alice", b"alice"]
    named = [{"key": name, "value": value} for name, value in headers]
    assert found["headers"] == [[], named, named]
