"""A stream of Redis, on a server of its own that is spoken to without a client library."""

import socket
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from shutil import which
from typing import Any

import msgspec

from benchmarks.events import Sample
from benchmarks.redis_server import redis_server
from strandline.values import Durability

STREAM = "events"

_encode = msgspec.json.Encoder().encode


def why_none() -> str | None:
    """Return why no server can be started; None if one can."""
    return None if which("redis-server") else "no redis-server in the PATH"


class RedisConnection:
    """One connection, in RESP."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._file = self._socket.makefile("rwb")

    def call(self, *words: str | bytes) -> Any:
        """Send a command, and return the answer."""
        self.send(*words)
        return self.receive()

    def send(self, *words: str | bytes) -> None:
        """Send a command, whose answer is received later."""
        parts = [b"*%d\r\n" % len(words)]
        for each in words:
            encoded = each if isinstance(each, bytes) else each.encode()
            parts.append(b"$%d\r\n%b\r\n" % (len(encoded), encoded))
        self._file.write(b"".join(parts))

    def receive(self) -> Any:
        """Return the next answer."""
        self._file.flush()
        line = self._file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b"$":
            return None if rest == b"-1" else self._file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.receive() for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def close(self) -> None:
        """End the connection."""
        self._file.close()
        self._socket.close()


class RedisStream:
    """Events in one stream; a connection for each thread.

    What is durable is synced with each write, what is written once a second.
    """

    def __init__(self, path: Path, durability: Durability) -> None:
        self._path = socket_at(path)
        self._local = threading.local()
        self._all: list[RedisConnection] = []
        self._server = ExitStack()
        fsync = "always" if durability is Durability.DURABLE else "everysec"
        options = ("--port", "0", "--unixsocket", str(self._path))
        self._server.enter_context(redis_server(path.parent, *options, fsync=fsync))

    def append(self, sample: Sample) -> None:
        self._connection().call(*_added(_encode(sample)))

    def encoded(self, samples: Sequence[Sample]) -> list[bytes]:
        return [_encode(sample) for sample in samples]

    def append_encoded(self, events: list[bytes]) -> None:
        connection = self._connection()
        connection.send("MULTI")
        for each in events:
            connection.send(*_added(each))
        connection.send("EXEC")
        for _ in range(len(events) + 1):
            connection.receive()
        assert len(connection.receive()) == len(events)

    def close(self) -> None:
        for each in self._all:
            each.close()
        self._server.close()

    def _connection(self) -> RedisConnection:
        if not hasattr(self._local, "connection"):
            self._local.connection = RedisConnection(self._path)
            self._all.append(self._local.connection)
        connection: RedisConnection = self._local.connection
        return connection


def socket_at(path: Path) -> Path:
    """Return where the server of a store at a path listens."""
    return path.parent / "socket"


def _added(event: bytes) -> tuple[str | bytes, ...]:
    return "XADD", STREAM, "*", "e", event
