"""A call of the store's port over HTTP: its message, and its endpoint. See design 0101."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from starlette.responses import Response

from strandline.log import Log, parts_of, wire
from strandline.log.off_loop import in_thread
from strandline.log.parts import quotas_of
from strandline.log.store import StoredTopic
from strandline.server.call import Call, by_size
from strandline.server.endpoint import Answering, Endpoint, endpoint
from strandline.server.remote_claims import RemoteClaims
from strandline.server.remote_topics import RemoteTopics
from strandline.server.tokens import TokenScope
from strandline.typed.versions import SchemaVersions
from strandline.values import InvalidError
from strandline.values.partitioning import unknown_partition

T = TypeVar("T", bound=wire.Message)

_MESSAGE: Final = "strandline.message"


class StorePort:
    """The state that all remote logs of a server share."""

    def __init__(self, log: Log) -> None:
        parts = parts_of(log)
        self.store: Final = parts.store
        self.quotas: Final = quotas_of(log)
        self.topics: Final = RemoteTopics(self.store)
        self.claims: Final = RemoteClaims(self.store, parts.clock)
        self.versions: Final = SchemaVersions()

    def partition(self, call: Call, given: Any) -> tuple[StoredTopic, int]:
        """Return the partition that a message names, or raise."""
        topic = self.topics.by_id(call.caller, given.topic_id)
        if given.partition >= topic.settings.partitions:
            topic = self.topics.refreshed(call.caller, topic.topic)
        if not 0 <= given.partition < topic.settings.partitions:
            raise unknown_partition(given.partition, topic.settings.partitions)
        return topic, given.partition


def port_answer(message: wire.Message) -> Response:
    """Return an answer with this message."""
    return Response(wire.encode(message), 200, media_type=wire.MSGPACK)


async def port_message(call: Call, kind: type[T]) -> T:
    """Return the message that a request has."""
    body = await call.body()
    return await by_size(body, message_of, kind, body)


def message_of(kind: type[T], body: bytes) -> T:
    """Return the message in a body; InvalidError if it is not valid."""
    try:
        found: T = wire.decode(kind, body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidError("this is no message of a remote log", reason=str(error)) from None
    return found


def port_call(
    name: str, kind: type[T], *, is_read: bool = False
) -> Callable[[Callable[[Call, StorePort, T], wire.Message]], Endpoint]:
    """Make an endpoint of a call that blocks."""

    def make(function: Callable[[Call, StorePort, T], wire.Message]) -> Endpoint:
        async def answer(call: Call) -> Response:
            scope = call.request.scope
            given = scope.get(_MESSAGE) or await port_message(call, kind)
            if is_read:
                # The body can be received once, and a read may be answered twice.
                scope[_MESSAGE] = given
            return await in_thread(lambda: port_answer(function(call, call.port, given)))

        answer.__name__ = f"store_{name.replace('-', '_')}"
        answer.__doc__ = f"For remote logs. {function.__doc__}"
        return port_endpoint(name, is_read=is_read)(answer)

    return make


def port_endpoint(name: str, *, is_read: bool = False) -> Callable[[Answering], Endpoint]:
    """Return a decorator that makes endpoints; each of them needs the scope to read."""
    return endpoint(
        "POST",
        f"/v1/store/{name}",
        TokenScope.READ,
        body={wire.MSGPACK: bytes},
        answers={wire.MSGPACK: bytes},
        is_read=is_read,
    )
