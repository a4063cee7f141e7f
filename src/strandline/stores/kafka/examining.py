"""Checks what Kafka's brokers have or lack for a log, and what to do about it."""

import contextlib
from collections.abc import Iterator
from typing import Final

from strandline.clock import SystemClock
from strandline.log.examined import Examined
from strandline.stores.kafka.address import KafkaAddress, parse_address
from strandline.stores.kafka.clients import MESSAGE_BYTES_MAX, KafkaClients
from strandline.stores.kafka.names import KafkaNames
from strandline.stores.kafka.opened import syncing
from strandline.values import StrandlineError

_CONNECT_S: Final = 10.0


def examine(url: str) -> Iterator[Examined]:
    """Yield findings about the brokers of a URL. Changes nothing there."""
    about = "brokers"
    with contextlib.ExitStack() as opened:
        try:
            address, clock = parse_address(url), SystemClock()
            waits = {"connect_timeout_s": _CONNECT_S, "patience_s": _CONNECT_S}
            clients = KafkaClients(address, clock=clock, **waits)
            opened.callback(clients.close)
            about = "log"
            yield from _looked_at(clients, address)
        except StrandlineError as error:
            yield Examined(about, "failed", "cannot be examined", str(error))


def _looked_at(clients: KafkaClients, address: KafkaAddress) -> Iterator[Examined]:
    brokers = clients.retried(clients.brokers)
    yield Examined("brokers", "ok", f"{brokers} at {address.shown}")
    yield Examined("version", "ok", "brokers do not report it; a log needs Kafka 3.0 or newer")
    names = KafkaNames(address.prefix)
    topics = clients.retried(lambda: clients.topics_under(f"{address.prefix}."))
    if names.keyed not in topics:
        wanted = address.replicas or 1
        yield Examined("log", "ok", f"none yet with the prefix {address.prefix}")
        if wanted > brokers:
            advice = "use fewer replicas, or start more brokers"
            yield Examined("replicas", "failed", f"{wanted} on {brokers} brokers", advice)
        return
    yield Examined("log", "ok", f"{address.prefix}, {len(topics)} Kafka topics")
    settings = clients.retried(lambda: clients.settings_of(topics))
    is_durable, reason = syncing(topics, settings)
    if is_durable:
        yield Examined("durability", "ok", f"durable: {reason}")
    else:
        advice = "set flush.messages=1 for these topics, then open the log again"
        yield Examined("durability", "warning", f"written at most: {reason}", advice)
    yield _message_bytes(settings)
    yield _retention(settings)
    yield _replicas(clients, topics)


def _message_bytes(settings: list[dict[str, str]]) -> Examined:
    smallest = min(int(each.get("max.message.bytes", "0")) for each in settings)
    if smallest >= MESSAGE_BYTES_MAX:
        return Examined("max.message.bytes", "ok", f"{smallest}")
    advice = f"the log does not open: set it to {MESSAGE_BYTES_MAX} for every topic of the log"
    return Examined("max.message.bytes", "failed", f"{smallest}", advice)


def _retention(settings: list[dict[str, str]]) -> Examined:
    kept = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
    strange = sorted(
        {name for name, value in kept.items() for each in settings if each.get(name) != value}
    )
    if not strange:
        return Examined("retention", "ok", "the log's own; Kafka removes nothing")
    advice = "Kafka would remove records of the log: set retention.ms=-1, retention.bytes=-1 and"
    advice += " cleanup.policy=delete"
    return Examined("retention", "failed", f"changed: {', '.join(strange)}", advice)


def _replicas(clients: KafkaClients, topics: list[str]) -> Examined:
    found = clients.retried(
        lambda: [one for name in topics for one in clients.replicas(name) or ()]
    )
    behind = sum(in_sync < wanted for wanted, in_sync in found)
    wanted = max((each for each, _ in found), default=0)
    if behind:
        advice = "start the brokers that are missing, or wait until they have caught up"
        return Examined("replicas", "warning", f"{behind} of {len(found)} are behind", advice)
    return Examined("replicas", "ok", f"{wanted} of each partition, all in sync")
