"""A NATS server for the length of a run, our log on it, and a stream without us."""

import asyncio
import atexit
import tempfile
import threading
from collections.abc import Coroutine, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import nats
from nats.aio.client import Client

import strandline as sl
from benchmarks.events import Sample
from benchmarks.stores.ours import OurLog
from strandline.values import Durability
from tests.stores.jetstream.server import NatsServer

NUMBERS = count()
_encode = msgspec.json.Encoder().encode


def server(durability: Durability = Durability.DURABLE) -> NatsServer:
    """The server of the run, on a disk: what is durable is synced before it is acknowledged."""
    return _server(durability)


@cache
def _server(durability: Durability) -> NatsServer:
    sync = "always" if durability is Durability.DURABLE else "2m"
    started = NatsServer(inside=Path(tempfile.gettempdir()), sync=sync)
    atexit.register(started.close)
    return started


def our_log(path: Path, durability: Durability) -> OurLog:
    """Open a new log on the server."""
    del path
    url = server().url(f"log{next(NUMBERS)}")
    return OurLog(sl.open(url, system_url=server().system_url), durability)


class BareStream:
    """Messages in a stream, with nats-py and no log: a loop and a connection for each thread."""

    def __init__(self, path: Path, durability: Durability) -> None:
        del path
        self.server = server(durability)
        self.subject = f"events{next(NUMBERS)}"
        self._local = threading.local()
        self._all: list[tuple[asyncio.AbstractEventLoop, Client]] = []
        self._run(self._client().jetstream().add_stream(name=self.subject, subjects=[self.subject]))

    def append(self, sample: Sample) -> None:
        self._run(self._client().jetstream().publish(self.subject, _encode(sample)))

    def encoded(self, samples: Sequence[Sample]) -> list[bytes]:
        return [_encode(sample) for sample in samples]

    def append_encoded(self, events: list[bytes]) -> None:
        stream = self._client().jetstream()

        async def publish() -> None:
            await asyncio.gather(*(stream.publish(self.subject, each) for each in events))

        self._run(publish())

    def close(self) -> None:
        for loop, client in self._all:
            loop.run_until_complete(client.close())
            loop.close()

    def _client(self) -> Client:
        if not hasattr(self._local, "client"):
            self._local.client = self._run(nats.connect(self.server.url()))
            self._all.append((self._local.loop, self._local.client))
        client: Client = self._local.client
        return client

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        if not hasattr(self._local, "loop"):
            self._local.loop = asyncio.new_event_loop()
        return self._local.loop.run_until_complete(work)
