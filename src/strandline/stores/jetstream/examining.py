"""Checks what a NATS server has or lacks for a log, and what to do about it."""

import os
from collections.abc import Iterator
from typing import Any, Final

from strandline.clock import SystemClock
from strandline.log.examined import Examined
from strandline.stores.jetstream.address import SYSTEM_VARIABLE, NatsAddress, parse_address
from strandline.stores.jetstream.connection import NatsConnection
from strandline.stores.jetstream.opened import (
    VERSION_MIN,
    known_log,
    look_at_syncing,
)
from strandline.stores.jetstream.streams import LogNames
from strandline.values import RECORD_BYTES_MAX, StrandlineError

_CONNECT_S: Final = 10.0


def examine(url: str) -> Iterator[Examined]:
    """Yield findings about the server of a URL. Changes nothing there."""
    try:
        address = parse_address(url)
        connection = NatsConnection(
            address, clock=SystemClock(), connect_timeout_s=_CONNECT_S, patience_s=_CONNECT_S
        )
    except StrandlineError as error:
        yield Examined("server", "failed", "no connection", str(error))
        return
    try:
        yield Examined("server", "ok", address.shown)
        yield from _looked_at(connection, address)
    except StrandlineError as error:
        yield Examined("jetstream", "failed", "not usable", str(error))
    finally:
        connection.close()


def _looked_at(connection: NatsConnection, address: NatsAddress) -> Iterator[Examined]:
    version = ".".join(map(str, connection.version))
    if connection.version < VERSION_MIN:
        yield Examined("version", "failed", version, "use nats-server 2.12 or newer")
    else:
        yield Examined("version", "ok", version)
    connection.run(connection.check_jetstream())
    yield Examined("jetstream", "ok", "enabled for this user")
    yield _durability()
    yield _payload(connection.max_payload)
    names = LogNames(address.log)
    found = connection.run(known_log(connection, names))
    if found is None:
        yield Examined("log", "ok", f"none yet with the name {address.log}")
        return
    yield Examined("log", "ok", f"{address.log}, {found.replicas} replicas of each stream")
    yield from _followers(connection.run(connection.api(f"STREAM.INFO.{names.stream}")))


def _durability() -> Examined:
    system = os.environ.get(SYSTEM_VARIABLE)
    if system is None:
        return Examined(
            "durability",
            "warning",
            "written at most: how the servers sync is not known",
            f"set {SYSTEM_VARIABLE} to the URL of a user of the system account",
        )
    try:
        is_durable, reason = look_at_syncing(system, SystemClock(), _CONNECT_S)
    except StrandlineError as error:
        return Examined("durability", "warning", "written at most", str(error))
    if is_durable:
        return Examined("durability", "ok", f"durable: {reason}")
    advice = 'set sync_interval: "always" in jetstream { … } of every server'
    return Examined("durability", "warning", f"written at most: {reason}", advice)


def _payload(max_payload: int) -> Examined:
    if max_payload > RECORD_BYTES_MAX:
        return Examined("max_payload", "ok", f"{max_payload} bytes")
    return Examined(
        "max_payload",
        "warning",
        f"{max_payload} bytes",
        f"larger records are refused: raise it above {RECORD_BYTES_MAX}, at most 64 MB",
    )


def _followers(info: dict[str, Any]) -> Iterator[Examined]:
    replicas = (info.get("cluster") or {}).get("replicas") or ()
    behind = [each["name"] for each in replicas if each.get("offline") or not each.get("current")]
    if behind:
        advice = "start these servers, or wait until they have caught up"
        yield Examined("replicas", "warning", f"behind: {', '.join(sorted(behind))}", advice)
    elif replicas:
        yield Examined("replicas", "ok", f"{len(replicas) + 1}, all current")
