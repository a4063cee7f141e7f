"""Requests as bytes, sent as they are: what a connection is given, and what it answers."""

import re
import socket
from typing import Any, Self

from strandline.log import Log
from tests.server.processes import ServerProcess
from tests.server.served import Served

BODY = b'{"kind":"a","payload":1}'


class Connection:
    """One connection, to which bytes are sent as they are."""

    def __init__(self, served: Served | ServerProcess) -> None:
        host, port = served.url.removeprefix("http://").split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()

    def send(self, sent: bytes) -> bytes:
        """Send bytes, and return the next answer."""
        self._socket.sendall(sent)
        return self.answer()

    def write(self, sent: bytes) -> None:
        """Send bytes that have no answer yet."""
        self._socket.sendall(sent)

    def answer(self) -> bytes:
        """Return the next answer; what was read of it, if the server closes the connection."""
        while True:
            head, found, rest = self._unread.partition(b"\r\n\r\n")
            if found:
                length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
                size = int(length or b"0")
                if len(rest) >= size:
                    self._unread = rest[size:]
                    return head + found + rest[:size]
            piece = self._socket.recv(65536)
            if not piece:
                return self._unread
            self._unread += piece

    def read(self, size: int) -> bytes:
        """Return what has arrived, at most so many bytes; none if the server has closed."""
        return self._socket.recv(size)

    def fileno(self) -> int:
        """Return the descriptor, to wait for."""
        return self._socket.fileno()

    def is_closed(self) -> bool:
        """Return whether the server closes it, with nothing more to say; waits for that."""
        return not self._unread and self._socket.recv(1) == b""


def post(
    body: bytes = BODY,
    *lines: str,
    path: str = "/v1/topics/orders/records",
    length: str | None = None,
    version: str = "1.1",
) -> bytes:
    """Return a request that appends."""
    head = [
        f"POST {path} HTTP/{version}",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"Content-Length: {len(body) if length is None else length}",
        *lines,
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


def same(answer: bytes) -> bytes:
    """Return an answer without what differs from one to the next."""
    parts = (rb'"offset":\d+', rb'"timestamp":"[^"]*"', rb"date: [^\r]*", rb"content-length: \d+")
    for each in parts:
        answer = re.sub(each, b"", answer)
    return answer


def status(answer: bytes) -> int:
    return int(answer.split()[1])


def payloads(log: Log) -> list[Any]:
    return [each.payload for each in log.read("orders", 0, 1)]
