"""A Kafka broker for the length of a run, our log on it, and a topic without us."""

import atexit
import threading
from collections.abc import Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import strandline as sl
from benchmarks.events import Sample
from benchmarks.stores.ours import OurLog
from strandline.values import Durability
from tests.stores.kafka.server import KafkaServer

NUMBERS = count()


@cache
def server() -> KafkaServer:
    """The broker of the run."""
    started = KafkaServer()
    atexit.register(started.close)
    return started


def our_log(path: Path, durability: Durability) -> OurLog:
    """Open a new log on the broker."""
    del path
    return OurLog(sl.open(server().url(f"log{next(NUMBERS)}")), durability)


class BareTopic:
    """Messages in a topic of the same settings, with no log: a producer for each thread."""

    def __init__(self, path: Path, durability: Durability) -> None:
        del path, durability
        self._local = threading.local()
        self._topic = f"events{next(NUMBERS)}"
        settings = {"flush.messages": "1", "retention.ms": "-1"}
        made = NewTopic(self._topic, 1, 1, config=settings)
        admin = AdminClient({"bootstrap.servers": server().address})
        for each in admin.create_topics([made]).values():
            each.result(30)

    def _producer(self) -> Producer:
        if not hasattr(self._local, "producer"):
            settings = {"bootstrap.servers": server().address, "acks": "all", "linger.ms": 0}
            self._local.producer = Producer({**settings, "enable.idempotence": True})
        producer: Producer = self._local.producer
        return producer

    @property
    def name(self) -> str:
        """Where a reader in another process finds it: a broker and the topic."""
        return f"{server().address} {self._topic}"

    def append(self, sample: Sample) -> None:
        self.append_encoded([_message(sample)])

    def encoded(self, samples: Sequence[Sample]) -> list[Any]:
        return [_message(sample) for sample in samples]

    def append_encoded(self, events: list[Any]) -> None:
        producer = self._producer()
        for key, value in events:
            producer.produce(self._topic, value, key, on_delivery=_check)
        assert producer.flush(60) == 0

    def close(self) -> None:
        """Producers end with their threads."""


def _check(error: KafkaError | None, message: Message) -> None:
    assert error is None, message


def _message(sample: Sample) -> tuple[str | None, bytes]:
    kind, key, payload, headers, occurred_at_us = sample
    return key, msgspec.json.encode((kind, payload, headers, occurred_at_us))
