"""One connection to a NATS server, on its own event loop."""

import asyncio
import contextlib
import itertools
import re
import ssl
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import nats
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from strandline.clock import Clock
from strandline.log.loop_thread import LoopThread
from strandline.log.open_state import OpenState
from strandline.log.patience import patience_s as left_patience_s
from strandline.stores.jetstream.address import NatsAddress
from strandline.stores.jetstream.errors import (
    ApiRefusedError,
    no_jetstream,
    refused,
)
from strandline.stores.lost_answer import LostError, NotSentError
from strandline.values import InvalidError, StrandlineError, UnavailableError

R = TypeVar("R")
OnMessage: TypeAlias = Callable[[Msg], None]
"""Called with each message; must not block."""

#: How long to wait for an answer before a request is sent again.
_REQUEST_S: Final = 5.0
_PAUSE_MIN_S: Final = 0.02
_PAUSE_MAX_S: Final = 0.5
#: A suspended server keeps its connections open: pings detect that.
_PING_S: Final = 2
_LOOK_S: Final = 0.25
#: After this many requests without an answer, a single server is taken to have no JetStream.
_LOOKS: Final = 5
#: How long the client may take to send the rest.
_END_S: Final = 2.0
_API: Final = "$JS.API."
_STATUS: Final = "Status"
_NO_RESPONDERS: Final = "503"
_END_OF_BATCH: Final = "204"
_NOT_FOUND: Final = "404"
_BYTES_MAX: Final = 1 << 40
#: Parts of messages for a refused connection, as opposed to an unavailable server.
_REFUSALS: Final = ("authorization", "certificate", "ssl", "tls")
_NO_RIGHT: Final = re.compile(r"[Pp]ermissions [Vv]iolation for [Pp]ublish to \"([^\"]+)\"")


class NatsTries:
    """The retries of one call, and its time limit; used on the connection's loop."""

    def __init__(self, connection: "NatsConnection", limit_s: float) -> None:
        self._connection = connection
        self._end = asyncio.get_running_loop().time() + limit_s
        self._pause_s = _PAUSE_MIN_S

    @property
    def left_s(self) -> float:
        """How much time is left."""
        return self._end - asyncio.get_running_loop().time()

    async def rest(self, reason: object) -> None:
        """Wait before the next try; UnavailableError if the time is up."""
        if self.left_s <= 0:
            raise UnavailableError(
                "the server does not answer, check that it runs and try again",
                url=self._connection.url,
                reason=str(reason),
            )
        # Jitter, so that calls that were refused together do not retry together.
        jitter = self._connection.clock.random_bytes(1)[0] / 255
        pause = min(self._pause_s * (0.5 + jitter), max(self.left_s, 0.001))
        await self._connection.pause(pause)
        self._pause_s = min(self._pause_s * 2, _PAUSE_MAX_S)


class NatsConnection:
    """Sends requests and waits for their responses; reconnects automatically.

    Call `async` methods only on its loop, and use `run` on other threads.
    """

    def __init__(
        self, address: NatsAddress, *, clock: Clock, connect_timeout_s: float, patience_s: float
    ) -> None:
        self.url: Final = address.shown
        self.clock = clock
        self.state: Final = OpenState()
        self.patience_s = patience_s
        self._address = address
        self._connect_timeout_s = connect_timeout_s
        self._loop = LoopThread()
        self._client: Client | None = None
        self._subscriptions: dict[str, tuple[OnMessage, Subscription | None]] = {}
        self.max_payload: int = 0
        self.version: tuple[int, int, int] = (0, 0, 0)
        self._answers: dict[str, asyncio.Future[Msg] | asyncio.Queue[Msg | None]] = {}
        #: The subjects of requests that wait for an answer.
        self._asked: dict[str, set[str]] = {}
        self._numbers = itertools.count()
        self._inbox = ""
        #: The last error that the client has reported while connecting.
        self._failure: Exception | None = None
        self._reconnecting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        #: Counts lost connections: what was cached before one may be outdated.
        self.losses: int = 0
        try:
            self.run(self._connect())
        except BaseException:
            self.close()
            raise

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run the coroutine on the connection's loop, and return its result."""
        try:
            self.state.check()
        except StrandlineError:
            work.close()
            raise
        try:
            return self._loop.run(work)
        except ApiRefusedError as error:
            raise refused(error, self.url) from error

    def start(self, work: Coroutine[Any, Any, R]) -> "Future[R]":
        """Start a coroutine on the connection's loop; does not block."""
        return self._loop.start(work)

    def call(self, action: Callable[[], object]) -> None:
        """Call a function on the connection's loop; does not block."""
        self._loop.call(action)

    def close(self) -> None:
        """Close the connection and end the loop. May be repeated."""
        if not self.state.is_inherited:
            self.state.close()
            with contextlib.suppress(StrandlineError):
                self._loop.run(self._disconnect())
            self._loop.close()

    # --- on the loop ---

    def tries(self, limit_s: float | None = None) -> NatsTries:
        """Return the retries for a call; the time limit of the call above counts, too."""
        return NatsTries(
            self, left_patience_s(self.clock, self.patience_s) if limit_s is None else limit_s
        )

    async def pause(self, seconds: float) -> None:
        """Sleep without blocking the loop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.Event().wait()

    async def api(self, name: str, body: object = None) -> Any:
        """Return JetStream's answer to a request that may be repeated.

        ApiRefusedError if it refuses, UnavailableError if no answer comes.
        """
        payload = b"" if body is None else msgspec.json.encode(body)
        tries = self.tries()
        while True:
            try:
                return await self.api_once(name, payload)
            except LostError as error:
                await tries.rest(error)
            except ApiRefusedError as error:
                if not error.is_passing:
                    raise
                await tries.rest(error)

    async def api_once(self, name: str, payload: bytes) -> Any:
        """Return JetStream's answer; LostError if there is none."""
        return answer_of(await self.request(_API + name, payload))

    async def request(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None
    ) -> Msg:
        """Return the answer to one message; LostError if there is none."""
        return await self.request_all([(subject, payload, headers)])

    async def request_all(
        self, messages: Sequence[tuple[str, bytes, Mapping[str, str] | None]]
    ) -> Msg:
        """Send messages in order, and return the answer to the last; LostError if there is none."""
        token = str(next(self._numbers))
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Msg] = loop.create_future()
        late: asyncio.TimerHandle | None = None
        self._answers[token] = future
        self._asked[token] = {subject for subject, _, _ in messages}
        try:
            reply = f"{self._inbox}.{token}"
            for subject, payload, headers in messages[:-1]:
                await self._send(subject, payload, headers, "")
            await self._send(*messages[-1], reply)
            late = loop.call_later(_REQUEST_S, _give_up, future)
            return await future
        finally:
            if late is not None:
                late.cancel()
            self._answers.pop(token, None)
            self._asked.pop(token, None)
            # Lost while being sent, it has an error that must be retrieved.
            if not future.cancel() and not future.cancelled():
                future.exception()

    async def stream_of(self, subject: str, body: object) -> list[Msg]:
        """Return all messages of a multi-message answer; LostError if its end does not arrive."""
        token = str(next(self._numbers))
        queue: asyncio.Queue[Msg | None] = asyncio.Queue()
        self._answers[token] = queue
        found: list[Msg] = []
        try:
            payload = msgspec.json.encode(body)
            await self._send(subject, payload, None, f"{self._inbox}.{token}")
            while True:
                async with asyncio.timeout(_REQUEST_S):
                    message = await queue.get()
                if message is None:
                    raise LostError("the connection broke")
                status = (message.headers or {}).get(_STATUS)
                if status in (_END_OF_BATCH, _NOT_FOUND):
                    return found
                if status is not None:
                    raise LostError(f"status {status}")
                found.append(message)
        except TimeoutError as error:
            raise LostError("no answer in time") from error
        finally:
            self._answers.pop(token, None)

    async def subscribe(self, subject: str, on_message: OnMessage) -> None:
        """Call `on_message` with each message of a subject, until `unsubscribe`.

        Continues after a reconnect.
        """
        self._subscriptions[subject] = on_message, None
        if self._client is not None:
            # If that fails, the next connection subscribes.
            with contextlib.suppress(nats.errors.Error, OSError):
                await self._begin_subscription(self._client, subject)
                await self._client.flush()

    async def unsubscribe(self, subject: str) -> None:
        """End a subscription."""
        _, subscription = self._subscriptions.pop(subject, (None, None))
        if subscription is not None:
            with contextlib.suppress(nats.errors.Error, OSError):
                await subscription.unsubscribe()

    async def ask_all(self, subject: str, on_message: OnMessage) -> None:
        """Send a request to every server, and call `on_message` with each answer."""
        inbox = f"{self._inbox}.all"
        await self.subscribe(inbox, on_message)
        await self._send(subject, b"{}", None, inbox)

    # --- inside ---

    async def _send(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None, reply: str
    ) -> None:
        client = self._client
        if client is None or not client.is_connected:
            raise NotSentError("there is no connection")
        try:
            await client.publish(
                subject, payload, reply=reply, headers=None if headers is None else dict(headers)
            )
        except nats.errors.MaxPayloadError:
            raise InvalidError(
                "this is larger than the server's max_payload, raise that or append less at a time",
                bytes=len(payload),
                max_payload=self.max_payload,
            ) from None
        except (nats.errors.Error, OSError) as error:
            raise LostError(str(error) or type(error).__name__) from error

    # --- connecting ---

    async def _connect(self) -> None:
        self._failure = None
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await self._dial()
        except (nats.errors.Error, OSError) as error:
            # The client retries until the time is up, even if that can never succeed.
            is_late = isinstance(error, TimeoutError) and self._failure is not None
            raise self._unreachable(self._failure if is_late else error) from error

    async def _dial(self) -> None:
        """Connect, and restore the subscriptions of the last connection."""
        client = Client()
        failures: list[Exception] = []

        async def on_error(error: Exception) -> None:
            failures.append(error)
            del failures[:-1]
            self._failure = error
            self._refuse(str(error))

        async def on_end() -> None:
            self._lose(client)

        try:
            await client.connect(
                self._address.servers,
                name="strandline",
                error_cb=on_error,
                closed_cb=on_end,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=max(1, int(self._connect_timeout_s)),
                ping_interval=_PING_S,
                **self._address.access,
            )
            self._inbox = client.new_inbox()
            await client.subscribe(
                f"{self._inbox}.*", cb=self._on_answer, pending_bytes_limit=_BYTES_MAX
            )
            for subject in tuple(self._subscriptions):
                await self._begin_subscription(client, subject)
            if not client.is_connected:
                # It broke before we registered it, so its end was not noticed as a loss.
                raise nats.errors.ConnectionClosedError
        except BaseException as error:
            await _end(client)
            if isinstance(error, nats.errors.NoServersError) and failures:
                raise failures[-1] from error
            raise
        found = client.connected_server_version
        self.version = found.major, found.minor, found.patch
        self.max_payload = client.max_payload
        self._client = client
        self._watching = asyncio.ensure_future(self._watch(client))

    async def _begin_subscription(self, client: Client, subject: str) -> None:
        on_message, _ = self._subscriptions[subject]

        async def pass_on(message: Msg) -> None:
            on_message(message)

        self._subscriptions[subject] = on_message, await client.subscribe(subject, cb=pass_on)

    def _refuse(self, reason: str) -> None:
        """Fail requests that the user has no right to send, because these get no answer."""
        found = _NO_RIGHT.search(reason)
        if found is None:
            return
        for token, subjects in self._asked.items():
            waiting = self._answers.get(token)
            if found[1] in subjects and isinstance(waiting, asyncio.Future) and not waiting.done():
                waiting.set_exception(
                    InvalidError(
                        "this user has no right to publish this, see the page about JetStream",
                        url=self.url,
                        subject=found[1],
                    )
                )

    def _lose(self, client: Client) -> None:
        """Reconnect, unless closed; requests on the lost connection fail."""
        if client is not self._client:
            return
        self._client = None
        self.losses += 1
        for waiting in self._answers.values():
            if isinstance(waiting, asyncio.Queue):
                waiting.put_nowait(None)
            elif not waiting.done():
                waiting.set_exception(LostError("the connection broke"))
        if not self.state.is_closed:
            self._reconnecting = asyncio.ensure_future(self._reconnect(client))

    async def _watch(self, client: Client) -> None:
        """Detect an end that the client does not report, because its own close was cancelled."""
        while client is self._client:
            await self.pause(_LOOK_S)
            if not client.is_connected:
                self._lose(client)

    async def _reconnect(self, lost: Client) -> None:
        await _end(lost)
        pause_s = _PAUSE_MIN_S
        while not self.state.is_closed:
            try:
                async with asyncio.timeout(self._connect_timeout_s):
                    await self._dial()
            except Exception:  # noqa: BLE001 - Whatever the client raises, it is tried again.
                jitter = self.clock.random_bytes(1)[0] / 255
                await self.pause(pause_s * (0.5 + jitter))
                pause_s = min(pause_s * 2, _PAUSE_MAX_S)
            else:
                return

    def _unreachable(self, cause: Exception | None) -> StrandlineError:
        reason = str(cause) or type(cause).__name__
        if isinstance(cause, nats.errors.AuthorizationError | ssl.SSLError) or any(
            word in reason.lower() for word in _REFUSALS
        ):
            return InvalidError(
                "the server refuses this user, check user, password and TLS",
                url=self.url,
                reason=reason,
            )
        return UnavailableError(
            "the server cannot be reached, check that it runs and the URL",
            url=self.url,
            reason=reason,
        )

    async def _disconnect(self) -> None:
        for task in (self._reconnecting, self._watching):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        client, self._client = self._client, None
        if client is not None:
            await _end(client)

    # --- answers ---

    async def _on_answer(self, message: Msg) -> None:
        waiting = self._answers.get(message.subject.rpartition(".")[2])
        if isinstance(waiting, asyncio.Queue):
            waiting.put_nowait(message)
        elif waiting is not None and not waiting.done():
            waiting.set_result(message)

    async def check_jetstream(self) -> None:
        """Raise InvalidError if there is no JetStream for this user."""
        tries = self.tries()
        for number in itertools.count(1):
            try:
                await self.api_once("INFO", b"")
            except ApiRefusedError as error:
                if not error.is_passing:
                    raise
                await tries.rest(error)
            except LostError as error:
                # A cluster without an elected leader does not answer either.
                if number == _LOOKS and not self._is_cluster:
                    raise no_jetstream(self.url) from error
                await tries.rest(error)
            else:
                return

    @property
    def _is_cluster(self) -> bool:
        """Whether the server has announced other servers."""
        return self._client is not None and len(self._client.servers) > 1


def _give_up(waiting: "asyncio.Future[Msg]") -> None:
    if not waiting.done():
        waiting.set_exception(LostError("no answer in time"))


async def _end(client: Client) -> None:
    """Close a client; what a suspended server does not accept is discarded."""
    with contextlib.suppress(nats.errors.Error, OSError):
        async with asyncio.timeout(_END_S):
            await client.close()
    transport: Any = client._transport  # noqa: SLF001 - A cancelled close leaves it open.
    if transport:
        transport._io_writer.transport.abort()  # noqa: SLF001 - Its own close waits for the server.


def answer_of(message: Msg) -> Any:
    """Return JetStream's answer; LostError without a responder, ApiRefusedError for an error."""
    status = (message.headers or {}).get(_STATUS)
    if status == _NO_RESPONDERS:
        raise NotSentError("no JetStream for this user, or no leader of its cluster, answers")
    try:
        answer = msgspec.json.decode(message.data)
    except msgspec.DecodeError as error:
        raise LostError(f"not an answer of JetStream: {error}") from error
    if "error" in answer:
        raise ApiRefusedError(answer["error"])
    return answer
