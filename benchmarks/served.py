"""Servers on this machine that store events: ours, a bare handler, Redis, JetStream."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import msgspec

import strandline as sl
from benchmarks.events import Sample
from benchmarks.load import Conversation, HttpTalk, NatsTalk, RedisTalk, loaded_s
from benchmarks.redis_server import redis_server
from strandline.values import Durability
from tests.server.processes import ServerProcess
from tests.stores.jetstream.server import NatsServer

TOPIC = "orders"


class Peer(NamedTuple):
    """A running server, and its protocol."""

    port: int
    talk: Callable[[int], Conversation]
    request: Callable[[int, Sequence[bytes]], bytes]
    """Returns how the connection of a number appends these events, each encoded as JSON."""
    has_answer_each: bool = False
    """Whether each event of a request has an answer of its own."""


def encoded(sample: Sample) -> bytes:
    """Return an event as the body of a request has it."""
    return msgspec.json.encode(
        {
            "kind": sample.kind,
            "key": sample.key,
            "payload": sample.payload,
            "headers": sample.headers,
        }
    )


def append_s(peer: Peer, batches: Sequence[Sequence[Sequence[bytes]]]) -> float:
    """Return how long it takes until every connection has appended its batches of events."""
    requests = [
        [peer.request(number, batch) for batch in mine] for number, mine in enumerate(batches)
    ]
    each = len(batches[0][0]) if peer.has_answer_each else 1
    return loaded_s(peer.port, peer.talk, requests, each)


def _post(path: str, number: int, events: Sequence[bytes]) -> bytes:
    del number
    body = events[0] if len(events) == 1 else b"[" + b",".join(events) + b"]"
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return b"%bContent-Length: %d\r\n\r\n%b" % (head.encode(), len(body), body)


@contextmanager
def our_process(folder: Path) -> Iterator[ServerProcess]:
    """Serve a log of one topic."""
    path = str(folder / "log")
    with sl.open(f"file:{path}") as log:
        log.create_topic(TOPIC)
    with ServerProcess(path) as server:
        yield server


@contextmanager
def our_server(folder: Path, durability: Durability) -> Iterator[Peer]:
    """Serve a log of one topic, and append with this durability."""
    with our_process(folder) as server:
        url = f"/v1/topics/{TOPIC}/records?durability={durability}"
        yield Peer(server.port, HttpTalk, partial(_post, url))


def bare_server(folder: Path, durability: Durability) -> AbstractContextManager[Peer]:
    """Serve a file that each body is appended to."""
    return _started("benchmarks.bare_starlette", str(folder / "file"), str(durability))


def empty_server(folder: Path, durability: Durability) -> AbstractContextManager[Peer]:
    """Serve an empty application: the cost of the HTTP server and of ASGI."""
    del folder, durability
    return _started("benchmarks.empty_asgi")


@contextmanager
def _started(module: str, *words: str) -> Iterator[Peer]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = subprocess.Popen(
            [sys.executable, "-m", module, str(listening.fileno()), *words],
            pass_fds=[listening.fileno()],
        )
        try:
            yield Peer(listening.getsockname()[1], HttpTalk, partial(_post, "/"))
        finally:
            server.kill()
            server.wait()


@contextmanager
def redis_stream(folder: Path, durability: Durability) -> Iterator[Peer]:
    """Serve a stream of Redis, whose file is synced for each write, or written for each."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    fsync = "always" if durability is Durability.DURABLE else "no"
    with redis_server(folder, "--port", str(port), "--bind", "127.0.0.1", fsync=fsync):
        yield Peer(port, RedisTalk, _xadd, has_answer_each=True)


def _xadd(number: int, events: Sequence[bytes]) -> bytes:
    del number
    head = b"*5\r\n$4\r\nXADD\r\n$6\r\norders\r\n$1\r\n*\r\n$5\r\nevent\r\n"
    return b"".join(b"%b$%d\r\n%b\r\n" % (head, len(each), each) for each in events)


@contextmanager
def jetstream(folder: Path, durability: Durability) -> Iterator[Peer]:
    """Serve a stream of NATS, whose file is synced for each message, or written for each."""
    sync = "always" if durability is Durability.DURABLE else "2m"
    server = NatsServer(sync=sync, inside=folder)
    settings = {"name": TOPIC, "subjects": [TOPIC], "storage": "file", "allow_atomic": True}
    api = f"$JS.API.STREAM.CREATE.{TOPIC}".encode()
    create = _published(api, _inbox(0), b"", msgspec.json.encode(settings))
    try:
        loaded_s(server.port, NatsTalk, [[create]])
        yield Peer(server.port, NatsTalk, _publish)
    finally:
        server.close()


_batches = count()


def _publish(number: int, events: Sequence[bytes]) -> bytes:
    """Return messages, several of them as one batch that is stored as a whole."""
    subject, inbox = TOPIC.encode(), _inbox(number)
    if len(events) == 1:
        return _published(subject, inbox, b"", events[0])
    batch, sent = next(_batches), []
    for at, each in enumerate(events, 1):
        headers = b"Nats-Batch-Id: %d\r\nNats-Batch-Sequence: %d\r\n" % (batch, at)
        if at == len(events):
            sent.append(_published(subject, inbox, headers + b"Nats-Batch-Commit: 1\r\n", each))
        else:
            sent.append(_published(subject, b"", headers, each))
    return b"".join(sent)


def _inbox(number: int) -> bytes:
    return b"_INBOX.bench.%d.a" % number


def _published(subject: bytes, inbox: bytes, headers: bytes, body: bytes) -> bytes:
    to = b" ".join(filter(None, (subject, inbox)))
    if not headers:
        return b"PUB %b %d\r\n%b\r\n" % (to, len(body), body)
    head = b"NATS/1.0\r\n" + headers + b"\r\n"
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (to, len(head), len(head) + len(body), head, body)
