"""Three servers with three replicas: what holds while one of them, or all, are killed."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator

import pytest

import strandline as sl
from strandline.opening import examine
from strandline.stores.jetstream.address import SYSTEM_VARIABLE
from tests.stores.clusters import NodesInTurn
from tests.stores.engine_server import NoServerError
from tests.stores.jetstream.cluster import NatsCluster
from tests.stores.kills import MortalServer, kill_server_under_writers

PATIENCE_S = 120.0
PARTITIONS = 3
RECORDS = 30
OPENINGS = 8
EVENT = sl.Event("order", {})

pytestmark = [pytest.mark.slow, pytest.mark.heavy]


@pytest.fixture(scope="module")
def cluster() -> Iterator[NatsCluster]:
    try:
        found = NatsCluster()
    except NoServerError as error:
        pytest.skip(f"NATS cannot be started: {error}")
    with contextlib.closing(found):
        yield found


@pytest.mark.parametrize(
    "how", [NodesInTurn, lambda cluster: cluster], ids=["one_killed", "all_killed"]
)
def test_nothing_acknowledged_is_lost_or_doubled(
    cluster: NatsCluster,
    how: Callable[[NatsCluster], MortalServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    monkeypatch.setenv(SYSTEM_VARIABLE, cluster.system_url)

    acknowledged = kill_server_under_writers(how(cluster), cluster.url(f"k{seed}"), 1, seed)

    assert acknowledged > 0, seed


def test_a_server_that_is_stopped_holds_up_no_append_for_good(cluster: NatsCluster) -> None:
    numbers = range(PARTITIONS)
    with sl.open(cluster.url("stops"), patience_s=PATIENCE_S) as log:
        log.create_topic("t", partitions=PARTITIONS)
        for partition in numbers:
            log.append("t", EVENT, partition=partition)
        stopped = cluster.nodes[0]
        stopped.signal(signal.SIGSTOP)
        try:
            # It keeps its connections, and may be the leader of any of them.
            offsets = [log.append("t", EVENT, partition=each).offset for each in numbers]
        finally:
            stopped.signal(signal.SIGCONT)

        assert offsets == [1] * PARTITIONS
        assert [log.append("t", EVENT, partition=each).offset for each in numbers] == [2, 2, 2]


def test_a_log_is_made_once_a_server_that_was_away_is_back(cluster: NatsCluster) -> None:
    away = cluster.nodes[0]
    away.kill()
    try:
        # A leader is elected, then this server counts as one that is offline: both pass.
        for number in range(OPENINGS):
            url = cluster.url(f"early{number}")
            with contextlib.suppress(sl.UnavailableError), sl.open(url, patience_s=1.0):
                pass
    finally:
        away.start()

    with sl.open(cluster.url("back"), patience_s=PATIENCE_S) as log:
        log.create_topic("t")
        assert log.append("t", EVENT).offset == 0


def test_a_log_with_three_replicas_reads_what_it_wrote(cluster: NatsCluster) -> None:
    url = cluster.url("reads")
    with sl.open(url, system_url=cluster.system_url) as log, sl.open(url) as reader:
        assert log.durability_max is sl.Durability.DURABLE
        log.create_topic("t")
        for number in range(RECORDS):
            # Right after the acknowledgement a replica may not have it yet.
            receipt = log.append("t", sl.Event("order", {"n": number}), idempotency_key=str(number))
            (record,) = reader.read("t", 0, receipt.offset)
            assert record.payload["n"] == number
        log.trim("t", 0, RECORDS // 2)
        with sl.open(url) as fresh:
            repeats = [fresh.append("t", EVENT, idempotency_key=str(n)) for n in range(RECORDS)]
        assert all(each.is_repeat for each in repeats)
    found = {each.check: each for each in examine(url)}
    assert "3 replicas" in found["log"].found
    assert found["replicas"].verdict in ("ok", "warning")
