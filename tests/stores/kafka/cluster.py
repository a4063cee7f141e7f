"""Three real Kafka brokers that are one cluster."""

import itertools

from tests.stores.kafka.server import KafkaServer, free_port

NODES = 3


class KafkaCluster:
    """Three brokers, each of which can be killed, stopped and started again."""

    def __init__(self) -> None:
        quorum = [free_port() for _ in range(NODES)]
        self.nodes: list[KafkaServer] = []
        try:
            for number in range(1, NODES + 1):
                self.nodes.append(KafkaServer(number=number, quorum=quorum))
            self.start()
        except BaseException:
            self.close()
            raise

    def url(self, prefix: str) -> str:
        """Return where a log is, with all brokers."""
        return f"kafka://{','.join(each.address for each in self.nodes)}/{prefix}?replicas=3"

    def start(self) -> None:
        """Have every broker run."""
        for each in self.nodes:
            if not each.is_running:
                each.begin()
        for each in self.nodes:
            each.wait_until_ready()

    def kill(self) -> None:
        """Kill all brokers at once."""
        for each in self.nodes:
            each.kill()

    def close(self) -> None:
        """Kill all brokers, and remove their folders."""
        for each in self.nodes:
            each.close()


class OneOfThree:
    """Implements MortalServer: kills one broker after the other, in turn."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._turns = itertools.cycle(cluster.nodes)
        self._dead = cluster.nodes[0]

    def kill(self) -> None:
        self._dead = next(self._turns)
        self._dead.kill()

    def start(self) -> None:
        self._dead.start()
