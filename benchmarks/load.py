"""Many connections of one process, each of which sends a request once the last is answered."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import uvloop

from benchmarks.entry import now


class Conversation(Protocol):
    """The messages of one connection to a server, in the server's own protocol."""

    greeting: bytes
    """What a new connection sends first; `answers` leaves out what comes back."""

    def answers(self, received: bytes) -> int:
        """Return how many answers end with these bytes; raise for one that is an error."""


class _Caller(asyncio.Protocol):
    """One connection: sends its requests, each after the answers to the one before."""

    def __init__(
        self, talk: Conversation, requests: Sequence[bytes], answers_each: int, over: Any
    ) -> None:
        self._talk = talk
        self._requests: Iterator[bytes] = iter(requests)
        self._each = self._left = answers_each
        self._over = over
        self._transport: Any = None
        self._is_closed = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        """See asyncio."""
        self._transport = transport
        if self._talk.greeting:
            transport.write(self._talk.greeting)

    def send(self) -> None:
        """Send the next request; without one, report that this connection has finished."""
        request = next(self._requests, None)
        if request is None:
            self._end(None)
        else:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        try:
            self._left -= self._talk.answers(data)
        except RuntimeError as error:
            self._end(error)
            return
        if self._left <= 0:
            self._left += self._each
            self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._end(exc or ConnectionError("the server has closed a connection"))
        self._is_closed.set()

    async def close(self) -> None:
        """Close the connection, and wait for it."""
        self._transport.abort()
        await self._is_closed.wait()

    def _end(self, error: Exception | None) -> None:
        if not self._over.done():
            if error is None:
                self._over.set_result(None)
            else:
                self._over.set_exception(error)


def loaded_s(
    port: int,
    talk: Callable[[int], Conversation],
    requests: Sequence[Sequence[bytes]],
    each: int = 1,
) -> float:
    """Return how long it takes until all are answered: `requests` has a list for each connection.

    Each request has `each` answers.
    """

    async def load() -> float:
        loop = asyncio.get_running_loop()
        callers, over = [], []
        for number, mine in enumerate(requests):
            over.append(loop.create_future())
            caller = _Caller(talk(number), mine, each, over[-1])
            await loop.create_connection(partial(_itself, caller), "127.0.0.1", port)
            callers.append(caller)
        started = now()
        for caller in callers:
            caller.send()
        try:
            for each_over in over:
                await each_over
            return now() - started
        finally:
            for caller in callers:
                await caller.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(load())


def _itself(caller: _Caller) -> _Caller:
    return caller


class HttpTalk:
    """HTTP/1.1, with answers that have a length."""

    greeting = b""

    def __init__(self, number: int) -> None:
        del number
        self._unread = b""

    def answers(self, received: bytes) -> int:
        """See Conversation."""
        data, found = self._unread + received, 0
        while (end := data.find(b"\r\n\r\n")) >= 0:
            head = data[:end].lower()
            size = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            if len(data) < end + 4 + size:
                break
            if not head.startswith((b"http/1.1 200", b"http/1.1 201")):
                raise RuntimeError(data.decode())
            data = data[end + 4 + size :]
            found += 1
        self._unread = data
        return found


class RedisTalk:
    """RESP, with answers that are one text each."""

    greeting = b""

    def __init__(self, number: int) -> None:
        del number
        self._unread = b""

    def answers(self, received: bytes) -> int:
        """See Conversation."""
        lines = (self._unread + received).split(b"\r\n")
        self._unread = lines.pop()
        if any(each.startswith(b"-") for each in lines):
            raise RuntimeError(str(lines))
        # A text is two lines: its length, then the text. Keep the first until the second is there.
        if len(lines) % 2:
            self._unread = lines.pop() + b"\r\n" + self._unread
        return len(lines) // 2


class NatsTalk:
    """NATS, with acknowledgements of JetStream on an inbox."""

    _GREETING = (
        b'CONNECT {"verbose":false,"headers":true,"user":"app","pass":"secret"}\r\n'
        b"SUB _INBOX.bench.%d.* 1\r\n"
    )

    def __init__(self, number: int) -> None:
        self.greeting = self._GREETING % number
        self._unread = b""

    def answers(self, received: bytes) -> int:
        """See Conversation."""
        data, found = self._unread + received, 0
        while (end := data.find(b"\r\n")) >= 0:
            words = data[:end].split()
            if words[0] == b"MSG":
                size = int(words[-1])
                if len(data) < end + 4 + size:
                    break
                body = data[end + 2 : end + 2 + size]
                if b'"error"' in body:
                    raise RuntimeError(body.decode())
                data = data[end + 4 + size :]
                found += 1
            elif words[0] == b"-ERR":
                raise RuntimeError(data.decode())
            else:  # INFO and PING: no answer is expected within a round.
                data = data[end + 2 :]
        self._unread = data
        return found
