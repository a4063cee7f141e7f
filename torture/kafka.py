"""Brokers of Kafka that are killed under writers, one seed at a time."""

from contextlib import closing

from tests.stores.clusters import NodesInTurn
from tests.stores.kafka.cluster import KafkaCluster
from tests.stores.kafka.server import KafkaServer
from tests.stores.kills import kill_server_under_writers, kill_writing_processes

KILLS_PER_SERVER = 10
KILLS_PER_CLUSTER = 5
KILLS_OF_WRITERS = 10


def kill_server(seed: int) -> None:
    """Kill a broker again and again while four writers append."""
    with closing(KafkaServer()) as server:
        kill_server_under_writers(server, server.url("kills"), KILLS_PER_SERVER, seed)


def kill_writers(seed: int) -> None:
    """Kill two processes that append to the same partitions, again and again."""
    with closing(KafkaServer()) as server:
        kill_writing_processes(server.url("kills"), KILLS_OF_WRITERS, seed)


def kill_cluster(seed: int) -> None:
    """Kill the brokers of a cluster, one after the other or all at once."""
    with closing(KafkaCluster()) as cluster:
        mortal = cluster if seed % 2 else NodesInTurn(cluster)
        kill_server_under_writers(mortal, cluster.url("kills"), KILLS_PER_CLUSTER, seed)
