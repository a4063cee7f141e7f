"""Finds or creates the log on a server; checks how durable its servers are."""

import asyncio
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from nats.aio.msg import Msg

from strandline.clock import Clock
from strandline.log.store import Capabilities, Reach
from strandline.stores.jetstream.address import parse_address
from strandline.stores.jetstream.connection import NatsConnection
from strandline.stores.jetstream.errors import (
    STREAM_NOT_FOUND,
    ApiRefusedError,
)
from strandline.stores.jetstream.keyed import KeyedStream
from strandline.stores.jetstream.streams import LogNames, LogStream
from strandline.stores.log_format import LOG_FORMAT, check_format
from strandline.stores.lost_answer import LostError
from strandline.values import CorruptError, Durability, InvalidError, Mode
from strandline.values.log_url import NO_LOG

#: The first server with atomic batches.
VERSION_MIN: Final = 2, 12, 0
_PING: Final = "$SYS.REQ.SERVER.PING.JSZ"
_SERVERS_S: Final = 3.0
_UNSEEN: Final = (
    "only the system account shows how the servers sync: if they have sync_interval: always,"
    " open the log with system_url"
)


class OpenedLog(NamedTuple):
    """The properties of a log, without its topics."""

    log_id: UUID
    replicas: int


class LogValue(msgspec.Struct, array_like=True, frozen=True):
    """The stored form of a log's properties."""

    format: int
    log_id: UUID
    replicas: int


async def open_log(
    connection: NatsConnection, names: LogNames, replicas: int | None, mode: Mode, new_id: UUID
) -> OpenedLog:
    """Return the log on the server; with `mode` write a new one where there is none."""
    if connection.version < VERSION_MIN:
        raise InvalidError(
            "this server is too old, use nats-server 2.12 or newer",
            version=".".join(map(str, connection.version)),
        )
    await connection.check_jetstream()
    subject = names.keyed("log")
    keyed = KeyedStream(connection, names.stream)
    while True:
        found = await known_log(connection, names)
        if found is not None:
            return _checked(found, replicas, connection.url)
        if mode is not Mode.WRITE:
            raise InvalidError(
                NO_LOG,
                url=connection.url,
            )
        wanted = replicas or 1
        await LogStream(connection, names.stream).create(names.keyed_config(wanted))
        new = LogValue(LOG_FORMAT, new_id, wanted)
        await keyed.put(subject, msgspec.msgpack.encode(new), 0)


async def known_log(connection: NatsConnection, names: LogNames) -> LogValue | None:
    """Return the log's stored properties; None if there is no log."""
    subject = names.keyed("log")
    try:
        found = await KeyedStream(connection, names.stream).get(subject)
    except ApiRefusedError as error:
        if error.code != STREAM_NOT_FOUND:
            raise
        return None
    if found is None:
        return None
    try:
        return msgspec.msgpack.decode(found.value, type=LogValue)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise CorruptError(
            "what this log is cannot be read", file=names.stream, position=found.sequence
        ) from error


def _checked(found: LogValue, replicas: int | None, url: str) -> OpenedLog:
    check_format(found.format, url)
    if replicas is not None and replicas != found.replicas:
        raise InvalidError(
            "this log was made with another number of replicas, leave the option out",
            url=url,
            replicas=replicas,
            found=found.replicas,
        )
    return OpenedLog(found.log_id, found.replicas)


def capabilities(system_url: str | None, clock: Clock, timeout_s: float) -> Capabilities:
    """Return the servers' capabilities, as far as they can be known."""
    is_durable, reason = False, _UNSEEN
    if system_url is not None:
        is_durable, reason = look_at_syncing(system_url, clock, timeout_s)
    level = Durability.DURABLE if is_durable else Durability.WRITTEN
    return Capabilities(level, reason, Reach.NETWORK, has_metrics=True, moves=True)


def look_at_syncing(system_url: str, clock: Clock, timeout_s: float) -> tuple[bool, str]:
    """Return whether every server syncs before it acknowledges, and the evidence."""
    connection = NatsConnection(
        parse_address(system_url),
        clock=clock,
        connect_timeout_s=timeout_s,
        patience_s=timeout_s,
    )
    try:
        servers = connection.run(_servers(connection))
    finally:
        connection.close()
    if not servers:
        return False, "the system account did not answer, check that system_url names a user of it"
    wanted = max(int(each.get("meta_cluster", {}).get("cluster_size", 1)) for each in servers)
    slow = [each for each in servers if not each.get("config", {}).get("sync_always")]
    if len(servers) < wanted:
        return False, f"{len(servers)} of {wanted} servers said how they sync: open it again"
    if slow:
        return False, (
            "a server has no sync_interval: always, so a loss of power can lose what was"
            " acknowledged"
        )
    return True, f"each of {wanted} servers says sync_always, and acknowledges what it has synced"


async def _servers(connection: NatsConnection) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    is_complete = asyncio.Event()

    def on_message(message: Msg) -> None:
        answer = msgspec.json.decode(message.data)
        if isinstance(answer.get("data"), dict) and not answer["data"].get("disabled"):
            found.append(answer["data"])
            size = int(answer["data"].get("meta_cluster", {}).get("cluster_size", 1))
            if len(found) >= size:
                is_complete.set()

    try:
        async with asyncio.timeout(_SERVERS_S):
            await connection.ask_all(_PING, on_message)
            await is_complete.wait()
    except (TimeoutError, LostError):
        pass
    return found
