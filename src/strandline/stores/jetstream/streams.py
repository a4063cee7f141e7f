"""The streams of a log: names, settings, and requests."""

import asyncio
import base64
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from strandline.stores.jetstream.connection import NatsConnection
from strandline.stores.jetstream.errors import (
    MESSAGE_NOT_FOUND,
    NAME_IN_USE,
    STREAM_NOT_FOUND,
    ApiRefusedError,
)
from strandline.stores.lost_answer import LostError

#: Frames without and with identities: the latter can be read separately.
PLAIN: Final = "a"
WITH_IDENTITIES: Final = "i"
_DIRECT: Final = "$JS.API.DIRECT.GET."
#: The maximal size of one answer, at which the server ends it.
_PAGE_BYTES: Final = 8 * 1024 * 1024
_PAGE_FRAMES: Final = 512
SEQUENCE: Final = "Nats-Sequence"


class StoredMessage(NamedTuple):
    """A message, and its sequence in its stream."""

    sequence: int
    data: bytes
    #: Only set if the message was requested singly.
    subject: str = ""


class LogNames:
    """The names of one log's streams and subjects."""

    def __init__(self, log: str) -> None:
        self.stream: Final = f"STRANDLINE_{log}"
        self._prefix = f"strandline.{log}"
        self.everything: Final = f"{self._prefix}.>"
        self.hints: Final = f"{self._prefix}.h"

    def keyed(self, *parts: object) -> str:
        """Return a subject in the stream of keyed values."""
        return ".".join((self._prefix, "m", *map(str, parts)))

    def partition(self, topic_id: UUID, partition: int) -> str:
        """Return the stream of a partition."""
        return f"{self.stream}_{topic_id.hex}_{partition}"

    def frames(self, topic_id: UUID, partition: int) -> str:
        """Return the prefix of a partition's subjects."""
        return f"{self._prefix}.p.{topic_id.hex}.{partition}"

    def hint(self, topic_id: UUID, partition: int) -> str:
        """Return the subject on which appends to a partition are announced."""
        return f"{self.hints}.{topic_id.hex}.{partition}"

    def keyed_config(self, replicas: int) -> dict[str, Any]:
        """Return the settings of the stream of keyed values."""
        return {
            **_common(self.stream, [self.keyed(">")], replicas),
            "max_msgs_per_subject": 1,
            "allow_msg_ttl": True,
        }

    def partition_config(self, topic_id: UUID, partition: int, replicas: int) -> dict[str, Any]:
        """Return the settings of a partition's stream."""
        frames = self.frames(topic_id, partition) + ".*"
        return {
            **_common(self.partition(topic_id, partition), [frames], replicas),
            "deny_delete": True,
            "republish": {"src": frames, "dest": self.hint(topic_id, partition)},
        }


def _common(name: str, subjects: list[str], replicas: int) -> dict[str, Any]:
    # No limits: the log itself decides what is removed.
    return {
        "name": name,
        "subjects": subjects,
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "num_replicas": replicas,
        "allow_direct": True,
        "allow_atomic": True,
    }


class LogStream:
    """One stream; if it is gone, ApiRefusedError with STREAM_NOT_FOUND."""

    def __init__(self, connection: NatsConnection, name: str) -> None:
        self.connection = connection
        self.name = name

    async def create(self, config: Mapping[str, Any]) -> bool:
        """Create the stream unless it exists; False if it exists with other settings."""
        try:
            await self.connection.api(f"STREAM.CREATE.{self.name}", config)
        except ApiRefusedError as error:
            if error.code != NAME_IN_USE:
                raise
            return False
        return True

    async def delete(self) -> None:
        """Remove the stream, if it is there."""
        try:
            await self.connection.api(f"STREAM.DELETE.{self.name}")
        except ApiRefusedError as error:
            if error.code != STREAM_NOT_FOUND:
                raise

    async def info(self, **body: Any) -> Any:
        """Return the settings and the state of the stream."""
        return await self.connection.api(f"STREAM.INFO.{self.name}", body)

    async def purge(self, **body: Any) -> int:
        """Remove messages; return how many there were."""
        answer = await self.connection.api(f"STREAM.PURGE.{self.name}", body)
        return int(answer["purged"])

    async def get(self, **body: Any) -> StoredMessage | None:
        """Return one message from the stream's leader; None if there is none."""
        try:
            answer = await self.connection.api(f"STREAM.MSG.GET.{self.name}", body)
        except ApiRefusedError as error:
            if error.code != MESSAGE_NOT_FOUND:
                raise
            return None
        message = answer["message"]
        data = base64.b64decode(message.get("data", ""))
        return StoredMessage(message["seq"], data, message["subject"])

    async def page(self, start: int, subject: str | None = None) -> list[StoredMessage]:
        """Return messages from a sequence on, from any replica: some, all or none."""
        body: dict[str, Any] = {"seq": start, "batch": _PAGE_FRAMES, "max_bytes": _PAGE_BYTES}
        if subject is not None:
            body["next_by_subj"] = subject
        tries = self.connection.tries()
        while True:
            try:
                found = await self.connection.stream_of(_DIRECT + self.name, body)
            except LostError as error:
                # A stream that is gone does not answer either.
                await asyncio.gather(tries.rest(error), self.info())
            else:
                return [
                    StoredMessage(int((each.headers or {})[SEQUENCE]), each.data) for each in found
                ]
