"""Source and sink on logs that other machines reach: served, in PostgreSQL, on JetStream.

Spark's part is played in this process; `test_cluster.py` has executors that share no disk.
"""

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import strandline as sl
from strandline.spark import finish_writes
from strandline.spark.log_urls import spark_url
from strandline.spark.sink.settings import batch_settings
from tests.server.processes import ServerProcess
from tests.spark.as_sink import Sink, events, numbers_in
from tests.spark.as_spark import Query, fill, numbers, rows, source
from tests.spark.test_sink import interrupt
from tests.stores.engines import EngineServers
from tests.stores.jetstream.server import NatsServer
from tests.stores.postgres.server import PostgresServer

pytestmark = pytest.mark.heavy


@contextmanager
def served(folder: Path, servers: EngineServers) -> Iterator[str]:
    del servers
    with ServerProcess(str(folder / "log")) as server:
        yield server.url


@contextmanager
def in_postgresql(folder: Path, servers: EngineServers) -> Iterator[str]:
    yield servers.shared(PostgresServer).url(_name_of(folder))


@contextmanager
def on_jetstream(folder: Path, servers: EngineServers) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STRANDLINE_NATS_PASSWORD", "secret")
        yield servers.shared(NatsServer).url(_name_of(folder), user="app")


def _name_of(folder: Path) -> str:
    return f"t{os.getpid()}_{zlib.crc32(str(folder).encode())}"


@pytest.fixture(params=[served, in_postgresql, on_jetstream], ids=lambda each: str(each.__name__))
def url(request: pytest.FixtureRequest, tmp_path: Path, servers: EngineServers) -> Iterator[str]:
    with request.param(tmp_path, servers) as found:
        yield found


def test_a_topic_is_read_streamed_and_written_exactly_once(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging = (tmp_path / "objects").as_uri()
    with sl.open(url) as log:
        log.create_topic("t", partitions=2)
        log.create_topic("copy", partitions=2)
        fill(log, 30)

        assert numbers(rows(url, subscribe="t")) == [*range(30)]
        assert numbers(rows(url, subscribe="t", predicate="payload.n < 4")) == [*range(4)]
        query = Query(url, subscribe="t", startingOffsets="earliest", groupId="g")
        assert numbers(query.next()) == [*range(30)]
        fill(log, 10, first=30)
        again = Query(url, subscribe="t", groupId="g", offset=query.offset)
        assert numbers(again.next()) == [*range(30, 40)]
        query.stop()
        again.stop()

        sink = Sink(log, url, topic="copy", staging=staging)
        for _ in range(2):
            sink.write(0, events(range(60)), events(range(60, 90)))
        interrupt(monkeypatch, 0, lambda: sink.write(1, events(range(90, 120))))
        assert finish_writes(url, staging=staging) == 1
        sink.write(1, events(range(90, 120)))
        assert numbers_in(log, "copy") == [*range(120)]


def test_a_write_without_a_staging_place_is_refused_with_what_to_do(url: str) -> None:
    with pytest.raises(sl.InvalidError, match="stagingLocation"):
        batch_settings({"path": url, "topic": "t"})
    assert spark_url(url) == url
    with pytest.raises(sl.InvalidError, match="subscribe"):
        source(url).schema()
