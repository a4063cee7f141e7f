"""Finds or creates the log on the brokers; checks how durable its topics are."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from strandline.log.store import Capabilities, Reach
from strandline.stores.kafka.address import KafkaAddress
from strandline.stores.kafka.changes import KeyCondition, KeyPut
from strandline.stores.kafka.clients import MESSAGE_BYTES_MAX, KafkaClients
from strandline.stores.kafka.keyed import KeyedLog
from strandline.stores.kafka.names import KafkaNames, TopicForm
from strandline.stores.log_format import LOG_FORMAT, check_format
from strandline.values import CorruptError, Durability, InvalidError, Mode
from strandline.values.log_url import NO_LOG

_LOG: Final = "log"


class KafkaLogValue(msgspec.Struct, array_like=True, frozen=True):
    """The stored properties of a log."""

    format: int
    log_id: UUID
    replicas: int
    is_synced: bool

    @property
    def form(self) -> TopicForm:
        """The settings for its topics."""
        return TopicForm(self.replicas, self.is_synced)


def open_keyed(clients: KafkaClients, names: KafkaNames, form: TopicForm, mode: Mode) -> KeyedLog:
    """Return the keyed values of a log; with `mode` write, create them if there are none."""
    if clients.retried(lambda: clients.replicas(names.keyed)) is None:
        if mode is not Mode.WRITE:
            raise _no_log(clients.url)
        # The broker's time decides when a claim expires.
        form.create(clients, names.keyed, 1, **{"message.timestamp.type": "LogAppendTime"})
    return KeyedLog(clients, names.keyed)


def open_log(
    clients: KafkaClients, keyed: KeyedLog, address: KafkaAddress, mode: Mode, new_id: UUID
) -> KafkaLogValue:
    """Return the log's properties; with `mode` write, create the log if there is none."""
    form = form_of(address)
    while True:
        keyed.catch_up()
        found = known_log(keyed)
        if found is not None:
            check_format(found.format, clients.url)
            _check_same("replicas", address.replicas, found.replicas)
            _check_same("sync", address.is_synced, found.is_synced)
            return found
        if mode is not Mode.WRITE:
            raise _no_log(clients.url)
        new = KafkaLogValue(LOG_FORMAT, new_id, form.replicas, form.is_synced)
        put = KeyPut(_LOG, msgspec.msgpack.encode(new))
        keyed.change([KeyCondition(_LOG, keyed.get(_LOG).version)], [put])


def known_log(keyed: KeyedLog) -> KafkaLogValue | None:
    """Return the log's stored properties; None if there is no log."""
    entry = keyed.get(_LOG)
    if entry.value is None:
        return None
    try:
        return msgspec.msgpack.decode(entry.value, type=KafkaLogValue)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise CorruptError(
            "what this log is cannot be read", file=_LOG, position=entry.version
        ) from error


def form_of(address: KafkaAddress) -> TopicForm:
    """Return the settings for the topics of a new log."""
    return TopicForm(address.replicas or 1, address.is_synced is not False)


def _check_same(option: str, wanted: int | None, found: int) -> None:
    if wanted is not None and wanted != found:
        message = "this log was made with another value of this option, leave it out"
        raise InvalidError(message, option=option)


def _no_log(url: str) -> InvalidError:
    return InvalidError(NO_LOG, url=url)


def capabilities(clients: KafkaClients, topics: Sequence[str]) -> Capabilities:
    """Return what the brokers promise for these topics, according to their settings."""
    settings = clients.retried(lambda: clients.settings_of(topics))
    smallest = min(int(each.get("max.message.bytes", "0")) for each in settings)
    if smallest < MESSAGE_BYTES_MAX:
        raise InvalidError(
            "a topic of this log accepts only too small messages, set its max.message.bytes again",
            url=clients.url,
            found=smallest,
            needed=MESSAGE_BYTES_MAX,
        )
    is_durable, reason = syncing(topics, settings)
    level = Durability.DURABLE if is_durable else Durability.WRITTEN
    return Capabilities(
        level, reason, Reach.NETWORK, has_metrics=True, has_sources=True, moves=True
    )


def syncing(topics: Sequence[str], settings: Sequence[dict[str, str]]) -> tuple[bool, str]:
    """Return whether each topic is synced before it is acknowledged, and the evidence."""
    pairs = zip(topics, settings, strict=True)
    late = [name for name, each in pairs if each.get("flush.messages") != "1"]
    if not late:
        return True, f"each of its {len(topics)} topics has flush.messages=1"
    return False, (
        f"{len(late)} of its {len(topics)} topics have no flush.messages=1, so that a loss of"
        " power of all replicas can lose what was acknowledged"
    )
