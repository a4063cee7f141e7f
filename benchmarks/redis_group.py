"""A consumer group of Redis Streams on this machine, spoken to without a client library."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.entry import now
from benchmarks.producing import fresh
from benchmarks.redis_server import redis_server


def redis_rate(records: int, together: int, scratch: Path) -> float:
    """Return how many records a second a group reads and acks, durable for each so many."""
    with fresh(scratch) as path, _server(path.parent) as redis:
        for number in range(records):
            redis.send("XADD", "orders", "*", "number", str(number))
        for _ in range(records):
            redis.receive()
        redis.call("XGROUP", "CREATE", "orders", "billing", "0")
        started, done = now(), 0
        while done < records:
            read = ("XREADGROUP", "GROUP", "billing", "one", "COUNT", str(together))
            ((_, found),) = redis.call(*read, "STREAMS", "orders", ">")
            redis.call("XACK", "orders", "billing", *(each[0].decode() for each in found))
            done += len(found)
        return records / (now() - started)


class _Redis:
    """One connection, in RESP."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._file = self._socket.makefile("rwb")

    def call(self, *words: str) -> Any:
        """Send a command, and return the answer."""
        self.send(*words)
        return self.receive()

    def send(self, *words: str) -> None:
        """Send a command, whose answer is received later."""
        parts = [f"*{len(words)}\r\n", *(f"${len(each)}\r\n{each}\r\n" for each in words)]
        self._file.write("".join(parts).encode())

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


@contextmanager
def _server(folder: Path) -> Iterator[_Redis]:
    """Give a connection to a server of its own that syncs each write."""
    path = folder / "socket"
    with redis_server(folder, "--port", "0", "--unixsocket", str(path)):
        redis = _Redis(path)
        try:
            yield redis
        finally:
            redis.close()
