"""Wake-ups within one process. See design 0042."""

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from strandline.log import LiveSubscription, TopicName
from strandline.values import Tenant, Topic, check_topic_name
from strandline.values.arguments import check_instance
from strandline.values.prompt import prompt_text


def key_of(topic: TopicName) -> tuple[Tenant | None, str]:
    """Return a key for the topic, unique in its log as long as no topic is dropped.

    Computed without a lookup, so that there may be unnecessary wake-ups now and then.
    """
    if isinstance(topic, Topic):
        return topic.tenant, topic.name
    return None, check_topic_name(topic, internal=True)


def wanted_topic(topic: object) -> None:
    """Raise InvalidError unless this is a topic, or None for all topics."""
    if topic is not None:
        check_instance("topic", topic, Topic)


class Attached(NamedTuple):
    """One subscription, and its wake function."""

    live: LiveSubscription
    wake: Callable[[], None]


class LocalBroker:
    """Implements Broker for the logs of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attached: dict[int, Attached] = {}
        self._next = 0

    def publish(self, topic: TopicName, /) -> None:
        wanted = key_of(topic)
        for attached in self.attached():
            if key_of(attached.live.topic) == wanted:
                attached.wake()

    def attach(self, live: LiveSubscription, wake: Callable[[], None], /) -> Callable[[], None]:
        with self._lock:
            number = self._next = self._next + 1
            self._attached[number] = Attached(live, wake)

        def detach() -> None:
            with self._lock:
                self._attached.pop(number, None)

        return detach

    def live(self, topic: Topic | None = None, /) -> Sequence[LiveSubscription]:
        wanted_topic(topic)
        each = [attached.live for attached in self.attached()]
        return [live for live in each if topic is None or live.topic == topic]

    def attached(self) -> Sequence[Attached]:
        """Return the subscriptions of this process."""
        with self._lock:
            return list(self._attached.values())

    def __repr__(self) -> str:
        return prompt_text(type(self).__name__, subscriptions=len(self._attached))

    def close(self) -> None:
        with self._lock:
            self._attached.clear()
