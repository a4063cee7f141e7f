"""Servers that are one cluster, whatever the engine."""

import itertools
from typing import Generic, Protocol, TypeVar


class ClusterNode(Protocol):
    """One server of a cluster."""

    @property
    def is_running(self) -> bool:
        """Whether it was started, and has not ended."""

    def begin(self) -> None:
        """Start it, and do not wait for it."""

    def wait_until_ready(self) -> None:
        """Return once it takes connections."""

    def start(self) -> None:
        """Start it, and return once it takes connections."""

    def kill(self) -> None:
        """Kill it at once."""

    def close(self) -> None:
        """Kill it, and remove its folder."""


NodeT = TypeVar("NodeT", bound=ClusterNode)


class Cluster(Generic[NodeT]):
    """Servers, each of which can be killed, stopped and started again."""

    def __init__(self) -> None:
        self.nodes: list[NodeT] = []

    def start(self) -> None:
        """Have every server run."""
        for each in self.nodes:
            if not each.is_running:
                each.begin()
        for each in self.nodes:
            each.wait_until_ready()

    def kill(self) -> None:
        """Kill all servers at once."""
        for each in self.nodes:
            each.kill()

    def close(self) -> None:
        """Kill all servers, and remove their folders."""
        for each in self.nodes:
            each.close()


class NodesInTurn(Generic[NodeT]):
    """Implements MortalServer: kills one server after the other, in turn."""

    def __init__(self, cluster: Cluster[NodeT]) -> None:
        self._turns = itertools.cycle(cluster.nodes)
        self._dead = cluster.nodes[0]

    def kill(self) -> None:
        self._dead = next(self._turns)
        self._dead.kill()

    def start(self) -> None:
        self._dead.start()
