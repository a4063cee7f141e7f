"""Servers of NATS that are killed under writers, one seed at a time."""

import os
from contextlib import closing
from unittest import mock

from strandline.stores.jetstream.address import SYSTEM_VARIABLE
from tests.stores.clusters import NodesInTurn
from tests.stores.jetstream.cluster import NatsCluster
from tests.stores.jetstream.server import NatsServer
from tests.stores.kills import kill_server_under_writers

KILLS_PER_SERVER = 20
KILLS_PER_CLUSTER = 6


def kill_server(seed: int) -> None:
    """Kill a server again and again while four writers append."""
    with closing(NatsServer()) as server, _asking(server.system_url):
        kill_server_under_writers(server, server.url("kills"), KILLS_PER_SERVER, seed)


def kill_cluster(seed: int) -> None:
    """Kill the servers of a cluster, one after the other or all at once."""
    with closing(NatsCluster()) as cluster, _asking(cluster.system_url):
        mortal = cluster if seed % 2 else NodesInTurn(cluster)
        kill_server_under_writers(mortal, cluster.url("kills"), KILLS_PER_CLUSTER, seed)


def _asking(system_url: str) -> "mock._patch_dict":
    return mock.patch.dict(os.environ, {SYSTEM_VARIABLE: system_url})
