"""Who is to be woken, and who subscribes: the transport of wake-ups. See design 0042."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from strandline.log import TopicName
from strandline.values import Tenant, Topic, check_topic_name
from strandline.values.arguments import check_instance

#: Where a broker's failures are told.
failures = logging.getLogger("strandline.broker")


@dataclass(frozen=True, slots=True)
class LiveSubscription:
    """A subscription that somebody holds, in this process or another."""

    topic: Topic
    name: str | None
    """The consumer's name, if it has one."""
    tenant: Tenant | None
    """Whose the consumer is."""
    pid: int


class Broker(Protocol):
    """Carries wake-ups from writers to subscriptions, and lists the subscriptions.

    A wake-up says that a topic may have grown, and holds no data. Nothing depends on it
    but time: whatever a broker raises is logged, and neither a writer nor a subscription
    fails of it. It knows no tenants: what it lists is for whoever opened the log. Any
    call may be made from any thread.
    """

    def publish(self, topic: TopicName, /) -> None:
        """Wake those who subscribe to a topic of this name. That there is nobody is no failure."""

    def attach(self, live: LiveSubscription, wake: Callable[[], None], /) -> Callable[[], None]:
        """List this subscription and call `wake` at each wake-up of its topic.

        Returns what ends both; it may be called twice. `wake` may be called without a
        reason, and is quick.
        """

    def live(self, topic: Topic | None = None, /) -> Sequence[LiveSubscription]:
        """Return the subscriptions of a topic, or of all, as far as this broker reaches."""

    def close(self) -> None:
        """End every attachment, and give back what it holds."""


def key_of(topic: TopicName) -> tuple[Tenant | None, str]:
    """Return what tells the topics of one log apart as long as none is dropped.

    Known without a look into the log, at the price of a wake-up too many now and then.
    """
    if isinstance(topic, Topic):
        return topic.tenant, topic.name
    return None, check_topic_name(topic, internal=True)


def wanted_topic(topic: object) -> None:
    """Raise InvalidError unless this is a topic, or None for all."""
    if topic is not None:
        check_instance("topic", topic, Topic)


class Attached(NamedTuple):
    """One subscription, and how to wake it."""

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

    def close(self) -> None:
        with self._lock:
            self._attached.clear()
