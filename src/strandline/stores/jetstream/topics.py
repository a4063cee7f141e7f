"""The topics of a log: a value for each, and one that serializes changes between processes."""

import asyncio
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from strandline.log.chain import Chain
from strandline.log.store import dropped
from strandline.log.topics import check_new_topic
from strandline.stores.engine_topic import EngineTopic, decode_topic, encode_topic
from strandline.stores.jetstream.connection import NatsConnection
from strandline.stores.jetstream.keyed import KeyedStream, SubjectValue
from strandline.stores.jetstream.partition import PartitionMarks
from strandline.stores.jetstream.streams import LogNames, LogStream
from strandline.values import InvalidError, Tenant, TopicSettings

#: How many streams are created or removed concurrently.
_AT_ONCE: Final = 16
#: How many changes are read one by one; if there are more, everything is read.
_CHANGES_MAX: Final = 32


def _decoded(subject: str, found: SubjectValue) -> EngineTopic | None:
    return decode_topic(found.value, subject, found.sequence) if found.value else None


class JetStreamTopics:
    """Finds and changes topics. For one event loop.

    A change replaces the value `v`, with the sequence at which it was decided, so that one
    process at a time changes topics; whatever was read at the current `v` is up to date.
    """

    def __init__(
        self, connection: NatsConnection, keyed: KeyedStream, names: LogNames, replicas: int
    ) -> None:
        self._connection = connection
        self._keyed = keyed
        self._names = names
        self._replicas = replicas
        self._version = names.keyed("v")
        self._seen = -1
        #: The stored topics at that version, by subject; None for one whose drop was decided. And
        #: the count of lost connections then.
        self._stored: dict[str, EngineTopic | None] = {}
        self._losses = 0
        self._known: dict[UUID, EngineTopic] = {}
        #: Topics whose drop was decided, and may have been interrupted.
        self._unfinished: set[UUID] = set()
        self.log_id: UUID = UUID(int=0)

    async def all(self) -> Sequence[EngineTopic]:
        """Return the topics of every tenant."""
        await self._look()
        return tuple(self._known.values())

    def known(self, topic_id: UUID) -> EngineTopic | None:
        """Return a topic as of the last look. From any thread."""
        return self._known.get(topic_id)

    async def find(self, tenant: Tenant | None, name: str) -> EngineTopic | None:
        """Return the topic; None if there is none."""
        for each in await self.all():
            if each.topic.name == name and each.topic.tenant == tenant:
                return each
        return None

    async def find_id(self, topic_id: UUID) -> EngineTopic | None:
        """Return the topic of this id; None if there is none."""
        await self._look()
        return self._known.get(topic_id)

    async def create(self, made: EngineTopic) -> EngineTopic:
        """Return the existing topic, or this new one."""
        name, tenant, settings = made.topic.name, made.topic.tenant, made.settings
        has_streams = False
        while True:
            version = await self._look_and_finish()
            own = [each for each in self._known.values() if each.topic.tenant == tenant]
            known = next((each for each in own if each.topic.name == name), None)
            twins = [each.topic.name for each in own if each.topic.name.lower() == name.lower()]
            try:
                present = None if known is None else known.settings
                check_new_topic(name, settings, present, twins)
            except InvalidError:
                await self._discard(made, has_streams=has_streams)
                raise
            if known is not None:
                await self._discard(made, has_streams=has_streams)
                return known
            if not has_streams:
                await self._add_partitions(made, range(settings.partitions))
                has_streams = True
            if await self._change(version, made.topic.id, encode_topic(made)):
                return made

    async def store_settings(
        self, topic: EngineTopic, settings: TopicSettings, version: int
    ) -> bool:
        """Replace the settings unless a topic changed since `version`; return whether it did so."""
        changed = EngineTopic(topic.topic, settings, topic.created_at_us)
        added = range(topic.settings.partitions, settings.partitions)
        await self._add_partitions(changed, added)
        return await self._change(version, topic.topic.id, encode_topic(changed))

    async def present(self, topic: EngineTopic) -> tuple[int, EngineTopic]:
        """Return the current topic and version; DroppedError if it is gone."""
        version = await self._look()
        found = self._known.get(topic.topic.id)
        if found is None:
            raise dropped(topic.topic)
        return version, found

    async def drop(self, topic: EngineTopic) -> None:
        """Remove a topic and everything that belongs to it."""
        while True:
            version = await self._look_and_finish()
            if topic.topic.id not in self._known:
                return
            # An empty value: after a crash, the next change of topics completes the drop.
            if await self._change(version, topic.topic.id, b""):
                break
        await self._finish_drop(topic.topic.id)

    # --- inside ---

    async def _change(self, version: int, topic_id: UUID, value: bytes) -> bool:
        changes = [(self._version, b""), (self._names.keyed("t", topic_id.hex), value)]
        return await self._keyed.put_all(self._version, changes, version) is not None

    async def _look(self) -> int:
        """Update the cache; return its version."""
        version = await self._present_version()
        while version != self._seen:
            losses = self._connection.losses
            stored = await self._read(version, losses)
            # Repeat until everything was read at one version.
            before, version = version, await self._present_version()
            if version != before:
                continue
            self._known = {each.topic.id: each for each in stored.values() if each is not None}
            self._unfinished.update(
                UUID(hex=subject.rpartition(".")[2])
                for subject, each in stored.items()
                if each is None
            )
            self._seen, self._stored, self._losses = version, stored, losses
        return version

    async def _present_version(self) -> int:
        found = await self._keyed.get(self._version)
        return 0 if found is None else found.sequence

    async def _read(self, version: int, losses: int) -> dict[str, EngineTopic | None]:
        """Return the stored form of each topic; unchanged ones are not read again."""
        pattern = self._names.keyed("t", "*")
        seen, known = self._seen, self._stored
        changed = None
        # A restarted server may have lost its last changes, and have others instead.
        if 0 < seen < version and losses == self._losses:
            changed = await self._keyed.changed(pattern, seen, _CHANGES_MAX)
        if changed is None:
            changed, known = {}, {}
        subjects = await self._keyed.subjects(pattern)
        missing = [each for each in subjects if each not in changed and each not in known]
        read = zip(missing, await asyncio.gather(*map(self._keyed.get, missing)), strict=True)
        changed.update((subject, value) for subject, value in read if value is not None)
        # A topic that is not listed any more was dropped.
        return {
            each: _decoded(each, changed[each]) if each in changed else known[each]
            for each in subjects
            if each in changed or each in known
        }

    async def _look_and_finish(self) -> int:
        """Do what `_look` does, and complete interrupted drops."""
        version = await self._look()
        while self._unfinished:
            await self._finish_drop(self._unfinished.pop())
        return version

    async def _finish_drop(self, topic_id: UUID) -> None:
        prefix = self._names.keyed("m", topic_id.hex, "*")
        numbers = [int(each.rpartition(".")[2]) for each in await self._keyed.subjects(prefix)]
        streams = [
            LogStream(self._connection, self._names.partition(topic_id, number))
            for number in numbers
        ]
        for at in range(0, len(streams), _AT_ONCE):
            await asyncio.gather(*(each.delete() for each in streams[at : at + _AT_ONCE]))
        for kind in ("k", "i", "m"):
            await self._keyed.remove(self._names.keyed(kind, topic_id.hex, ">"))
        await self._keyed.remove(self._names.keyed("t", topic_id.hex))

    async def _discard(self, made: EngineTopic, *, has_streams: bool) -> None:
        if has_streams:
            await self._finish_drop(made.topic.id)

    async def _add_partitions(self, topic: EngineTopic, numbers: range) -> None:
        """Create empty partitions with these numbers, unless they exist."""
        for at in range(numbers.start, numbers.stop, _AT_ONCE):
            some = range(at, min(at + _AT_ONCE, numbers.stop))
            await asyncio.gather(*(self._add_partition(topic, number) for number in some))

    async def _add_partition(self, topic: EngineTopic, number: int) -> None:
        topic_id, settings = topic.topic.id, topic.settings
        origin = None
        if settings.proof:
            origin = Chain(self.log_id, topic_id, number, settings.value_kind).origin
        epoch = 0, self._connection.clock.new_id(), 0
        marks = PartitionMarks(0, 0, 0, origin, [epoch])
        subject = self._names.keyed("m", topic_id.hex, number)
        stream = LogStream(self._connection, self._names.partition(topic_id, number))
        config = self._names.partition_config(topic_id, number, self._replicas)
        # Existing marks stay.
        await asyncio.gather(stream.create(config), self._keyed.put(subject, marks.to_bytes(), 0))
