"""Three real Kafka brokers that are one cluster."""

from tests.stores.clusters import Cluster
from tests.stores.kafka.server import KafkaServer, free_port

NODES = 3


class KafkaCluster(Cluster[KafkaServer]):
    """Three brokers, each of which can be killed, stopped and started again."""

    def __init__(self) -> None:
        quorum = [free_port() for _ in range(NODES)]
        super().__init__()
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
