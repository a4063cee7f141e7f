"""A broker that fails on request."""

from strandline.log import TopicName
from strandline.subscriptions import LocalBroker
from strandline.values import UnavailableError


class FaultyBroker(LocalBroker):
    """Implements Broker for one process. Counts the wake-ups."""

    def __init__(self) -> None:
        super().__init__()
        #: The number of requested wake-ups, including failed ones.
        self.published: int = 0
        self._failures: list[str] = []

    def fail_next_publish(self, message: str) -> None:
        """Make the next `publish` raise UnavailableError; twice, the next two."""
        self._failures.append(message)

    def publish(self, topic: TopicName, /) -> None:
        self.published += 1
        if self._failures:
            raise UnavailableError(self._failures.pop(0))
        super().publish(topic)
