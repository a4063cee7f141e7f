"""The topics of a log: keyed values, and a Kafka topic for the records of each."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from strandline.log.store import dropped
from strandline.log.topics import check_new_topic
from strandline.stores.engine_topic import EngineTopic, decode_topic, encode_topic
from strandline.stores.kafka.changes import KeyCondition, KeyPut
from strandline.stores.kafka.clients import KafkaClients
from strandline.stores.kafka.keyed import KeyedLog
from strandline.stores.kafka.names import KafkaNames, TopicForm, key_of_topic, keys_of_topic
from strandline.stores.kafka.raw_topics import RawTopics
from strandline.values import TopicSettings

_VERSION: Final = "v"
_DROPPED: Final = "d."


class KafkaTopics:
    """Finds and changes topics. Thread-safe.

    Each change expects the version of the key `v` at which it was decided, so that one
    process at a time changes topics.
    """

    def __init__(
        self, clients: KafkaClients, keyed: KeyedLog, names: KafkaNames, form: TopicForm
    ) -> None:
        self._clients = clients
        self._keyed = keyed
        self._names = names
        self._form = form
        self._known: tuple[int, dict[UUID, EngineTopic]] = -1, {}
        self.raw: Final = RawTopics(clients, f"{names.prefix}.")
        """The topics that other programs write."""

    def all(self) -> dict[UUID, EngineTopic]:
        """Return the current topics of every tenant."""
        self._keyed.catch_up()
        return self._read()[1]

    def known(self, topic_id: UUID) -> EngineTopic | None:
        """Return a topic as of the last look; None for one that other programs write."""
        found = self._known[1].get(topic_id)
        return None if found is None or found.settings.source is not None else found

    def with_source(self, topic: EngineTopic | None) -> EngineTopic | None:
        """Return a topic with its source's current partitions, if it has a source."""
        if topic is None or topic.settings.source is None:
            return topic
        return self.raw.with_partitions(topic)

    def is_there(self, topic_id: UUID) -> bool:
        """Whether the log has this topic, as of the last look."""
        return self._keyed.get(key_of_topic(topic_id)).value is not None

    def is_there_now(self, topic_id: UUID) -> bool:
        """Whether the log has this topic now."""
        self._keyed.catch_up()
        return self.is_there(topic_id)

    def create(self, made: EngineTopic) -> EngineTopic:
        """Return the existing topic, or this new one."""
        name, tenant = made.topic.name, made.topic.tenant
        is_made = False
        if made.settings.source is not None:
            made = replace(made, source_id=self.raw.checked(made.settings.source).id)
        while True:
            self._finish_drops()
            version, known = self._read()
            own = [each for each in known.values() if each.topic.tenant == tenant]
            found = next((each for each in own if each.topic.name == name), None)
            twins = [each.topic.name for each in own if each.topic.name.lower() == name.lower()]
            try:
                check_new_topic(
                    name, made.settings, None if found is None else found.settings, twins
                )
            except BaseException:
                self._discard(made, is_made=is_made)
                raise
            if found is not None:
                self._discard(made, is_made=is_made)
                return found
            if not is_made and made.settings.source is None:
                kafka_name = self._names.records(made.topic.id)
                self._form.create(self._clients, kafka_name, made.settings.partitions)
                is_made = True
            if self._change(version, KeyPut(key_of_topic(made.topic.id), encode_topic(made))):
                return made

    def change_settings(
        self, topic: EngineTopic, change: Callable[[TopicSettings], TopicSettings]
    ) -> TopicSettings:
        """Replace the settings with the result of `change`; DroppedError if it is gone."""
        while True:
            self._keyed.catch_up()
            version, known = self._read()
            present = known.get(topic.topic.id)
            if present is None:
                raise dropped(topic.topic)
            settings = change(present.settings)
            if settings.partitions > present.settings.partitions:
                self._add_partitions(topic.topic.id, settings.partitions)
            changed = replace(present, settings=settings)
            if self._change(version, KeyPut(key_of_topic(topic.topic.id), encode_topic(changed))):
                return settings

    def drop(self, topic: EngineTopic) -> None:
        """Remove a topic and everything that belongs to it."""
        topic_id = topic.topic.id
        while True:
            self._keyed.catch_up()
            version, known = self._read()
            if topic_id not in known:
                break
            gone = [key_of_topic(topic_id), *self._keyed.under(keys_of_topic(topic_id))]
            puts = [KeyPut(key, None) for key in gone]
            # After a crash, the next change of topics completes the drop.
            if self._change(version, KeyPut(_DROPPED + topic_id.hex, b""), *puts):
                break
        self._finish_drops()

    # --- inside ---

    def _read(self) -> tuple[int, dict[UUID, EngineTopic]]:
        version = self._keyed.get(_VERSION).version
        if version != self._known[0]:
            found = [
                decode_topic(entry.value or b"", key, entry.version)
                for key, entry in self._keyed.under("t.").items()
            ]
            known = {each.topic.id: each for each in found}
            if self._keyed.get(_VERSION).version != version:
                return self._read()
            self._known = version, known
        return self._known

    def _change(self, version: int, *puts: KeyPut) -> bool:
        conditions = [KeyCondition(_VERSION, version)]
        return self._keyed.change(conditions, [KeyPut(_VERSION, b""), *puts]) is not None

    def _finish_drops(self) -> None:
        """Remove the remains of dropped topics."""
        self._keyed.catch_up()
        for key, entry in self._keyed.under(_DROPPED).items():
            name = self._names.records(UUID(hex=key.removeprefix(_DROPPED)))
            self._delete(name)
            self._keyed.change([KeyCondition(key, entry.version)], [KeyPut(key, None)])

    def _add_partitions(self, topic_id: UUID, count: int) -> None:
        name = self._names.records(topic_id)
        self._clients.retried(lambda: self._clients.add_partitions(name, count))

    def _discard(self, made: EngineTopic, *, is_made: bool) -> None:
        if is_made:
            self._delete(self._names.records(made.topic.id))

    def _delete(self, name: str) -> None:
        self._clients.retried(lambda: self._clients.delete_topic(name))

    def names(self) -> Sequence[str]:
        """Return the Kafka topics with records of this log."""
        found = self.all().values()
        return [self._names.records(each.topic.id) for each in found if not each.settings.source]
