"""The topics of a log: a directory for each, and a file in it that says what it is."""

import difflib
import os
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from uuid import UUID

import msgspec

from strandline.io import Io
from strandline.log.chain import Chain
from strandline.log.results import TopicName
from strandline.log.terms import check_partition
from strandline.stores.files import checked
from strandline.stores.files.partition import SEGMENTS, TOPIC, PartitionFiles, Place
from strandline.stores.files.root import Root
from strandline.stores.files.segment import begins_with_frame
from strandline.values import (
    ConflictError,
    CorruptError,
    InvalidError,
    Partition,
    Tenant,
    Topic,
    TopicSettings,
    ValueKind,
    check_case_twin,
    check_topic_name,
    sorted_metadata,
)
from strandline.values.names import RESERVED_PREFIX

KIND = "topic"
CURSORS = "cursors"
_NEAR_MAX = 3


class _StoredTopic(msgspec.Struct, frozen=True):
    id: UUID
    name: str
    tenant: str | None
    created_at_us: int
    partitions: int
    value_kind: ValueKind
    retention_age_s: int | None = None
    retention_bytes: int | None = None
    #: Said before anything is removed: what has lost this file is damaged, not dropped.
    is_dropped: bool = False
    proof: bool = False
    limit_bytes: int | None = None
    #: Left out where there is none.
    schema: bytes | msgspec.UnsetType = msgspec.UNSET
    metadata: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True, eq=False)
class TopicEntry:
    """A topic as it is stored, and its partitions' files."""

    topic: Topic
    settings: TopicSettings
    created_at_us: int
    directory: str
    #: The file that says that there is this topic.
    path: str
    partitions: tuple[PartitionFiles, ...]

    def files(self, partition: int) -> PartitionFiles:
        """Return the files of a partition; InvalidError if there is none."""
        if type(partition) is not int or not 0 <= partition < len(self.partitions):
            check_partition(partition, self.settings.partitions)
        return self.partitions[partition]


class Topics:
    """Finds and changes topics. Any thread may use it."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._io = root.io
        # Everything about a topic but its retention stays as it is for good.
        self._entries: dict[UUID, TopicEntry] = {}
        self._by_name: dict[tuple[Tenant | None, str], TopicEntry] = {}
        # What a damaged topic is called, nobody knows: no topic is certainly missing then.
        self._damaged: CorruptError | None = None

    def find(self, topic: TopicName, tenant: Tenant | None = None) -> TopicEntry:
        """Return the topic; InvalidError with near matches if there is none."""
        if isinstance(topic, Topic):
            name, tenant = topic.name, topic.tenant
        else:
            name = check_topic_name(topic, internal=True)
        entry = self._by_name.get((tenant, name))
        if entry is None or not self._io.exists(entry.path):
            self._look()
            entry = self._by_name.get((tenant, name))
        if entry is None or (
            entry.topic is not topic and isinstance(topic, Topic) and entry.topic.id != topic.id
        ):
            self._check_damage()
            raise self._unknown(name, tenant)
        return entry

    def known(self, topic: TopicName) -> TopicEntry | None:
        """Return a topic that was found before, for who finds by its tails if it was dropped."""
        if not isinstance(topic, Topic):
            return None
        entry = self._by_name.get((topic.tenant, topic.name))
        return entry if entry is not None and entry.topic is topic else None

    def find_id(self, topic_id: UUID) -> TopicEntry | None:
        """Return the topic of this id."""
        entry = self._entries.get(topic_id)
        if entry is None or not self._io.exists(entry.path):
            self._look()
            entry = self._entries.get(topic_id)
        return entry

    def fresh(self, entry: TopicEntry) -> TopicEntry:
        """Return the topic with its retention as it is now."""
        try:
            stored = self._load(entry.directory)
        except FileNotFoundError:
            raise self._unknown(entry.topic.name, entry.topic.tenant) from None
        if stored.is_dropped:
            raise self._unknown(entry.topic.name, entry.topic.tenant)
        return replace(entry, settings=_settings(stored))

    def all(self) -> list[TopicEntry]:
        """Return the topics of everybody."""
        self._look()
        self._check_damage()
        return list(self._entries.values())

    def list(self, tenant: Tenant | None, *, internal: bool) -> Sequence[Topic]:
        """Return the tenant's topics sorted by name."""
        topics = [entry.topic for entry in self.all() if entry.topic.tenant == tenant]
        return sorted(
            (each for each in topics if each.name.startswith(RESERVED_PREFIX) == internal),
            key=lambda each: each.name,
        )

    def forget(self) -> None:
        """Let go of every file."""
        for entry in tuple(self._entries.values()):
            for files in entry.partitions:
                files.forget()

    # --- changes; the caller holds the lock for them ---

    def create(self, name: str, tenant: Tenant | None, settings: TopicSettings) -> TopicEntry:
        """Return the new topic, or the one that is the same already."""
        self._look()
        known = self._by_name.get((tenant, name))
        if known is None:
            self._check_damage()
            names = [each for whose, each in self._by_name if whose == tenant]
            check_case_twin(name, names)
            return self._make(name, tenant, settings)
        known = self.fresh(known)
        if known.settings != settings:
            raise ConflictError(
                "the topic exists with other settings, use it as it is or choose another name",
                topic=name,
                **known.settings.unlike(settings),
            )
        return known

    def change_settings(self, entry: TopicEntry, settings: TopicSettings) -> TopicEntry:
        """Replace the settings of a topic."""
        changed = replace(entry, settings=settings)
        self._store(changed)
        return changed

    def drop(self, entry: TopicEntry) -> None:
        """Say that there is no such topic any more."""
        self._store(entry, is_dropped=True)
        self._forget(entry)

    def remains(self) -> Sequence[str]:
        """Return the directories of topics that were dropped, or never quite created."""
        names = self._io.list(self._root.topics)
        paths = (os.path.join(self._root.topics, name) for name in names)
        return [path for path in paths if self._is_remains(path)]

    def _is_remains(self, directory: str) -> bool:
        try:
            return self._load(directory).is_dropped
        except FileNotFoundError:
            return not has_records(self._io, directory)
        except (CorruptError, NotADirectoryError):
            return False

    # --- inside ---

    def _look(self) -> None:
        """Learn of topics that others have created or dropped."""
        found = set(self._io.list(self._root.topics))
        for entry in tuple(self._entries.values()):
            if str(entry.topic.id) not in found or not self._io.exists(entry.path):
                self._forget(entry)
        known = {str(topic_id) for topic_id in self._entries}
        self._damaged = None
        for name in sorted(found - known):
            directory = os.path.join(self._root.topics, name)
            try:
                stored = self._load(directory)
                if not stored.is_dropped:
                    self._remember(self._entry(stored, directory))
            except FileNotFoundError:
                # Not created yet, or dropped, unless it has records.
                if has_records(self._io, directory):
                    self._damaged = CorruptError(
                        "a topic has lost the file that names it", file=directory, position=0
                    )
            except NotADirectoryError:
                pass  # Nothing of ours.
            except CorruptError as error:
                self._damaged = error

    def _check_damage(self) -> None:
        if self._damaged is not None:
            raise copy(self._damaged)

    def _remember(self, entry: TopicEntry) -> TopicEntry:
        known = self._entries.setdefault(entry.topic.id, entry)
        self._by_name[known.topic.tenant, known.topic.name] = known
        return known

    def _forget(self, entry: TopicEntry) -> None:
        self._entries.pop(entry.topic.id, None)
        name = entry.topic.tenant, entry.topic.name
        if self._by_name.get(name) is entry or (
            name in self._by_name and self._by_name[name].topic.id == entry.topic.id
        ):
            del self._by_name[name]

    def _load(self, directory: str) -> _StoredTopic:
        path = os.path.join(directory, TOPIC)
        stored = checked.load(self._io, path, KIND, _StoredTopic)
        if str(stored.id) != os.path.basename(directory):
            raise CorruptError("this topic lies in another one's place", file=path, position=0)
        return stored

    def _entry(self, stored: _StoredTopic, directory: str) -> TopicEntry:
        try:
            tenant = None if stored.tenant is None else Tenant(stored.tenant)
            topic = Topic(stored.name, stored.id, tenant)
            settings = _settings(stored)
        except InvalidError as error:
            path = os.path.join(directory, TOPIC)
            raise CorruptError("this topic cannot be read", file=path, position=0) from error
        root = self._root
        partitions = tuple(
            PartitionFiles(
                Place(
                    *(root.io, root.clock, root.log_id, topic, settings.value_kind),
                    *(Partition(number), os.path.join(directory, str(number))),
                    Chain(root.log_id, topic.id, number, settings.value_kind),
                    settings.proof,
                )
            )
            for number in range(settings.partitions)
        )
        path = os.path.join(directory, TOPIC)
        return TopicEntry(topic, settings, stored.created_at_us, directory, path, partitions)

    def _make(self, name: str, tenant: Tenant | None, settings: TopicSettings) -> TopicEntry:
        clock = self._root.clock
        topic = Topic(name, clock.new_id(), tenant)
        directory = os.path.join(self._root.topics, str(topic.id))
        self._io.mkdir(directory)
        self._io.sync_directory(self._root.topics)
        for number in range(settings.partitions):
            partition = os.path.join(directory, str(number))
            self._io.mkdir(partition)
            self._io.mkdir(os.path.join(partition, SEGMENTS))
            self._io.sync_directory(partition)
        self._io.mkdir(os.path.join(directory, CURSORS))
        # Before the topic is announced: its name may reach the disk before theirs.
        self._io.sync_directory(directory)
        stored = _StoredTopic(
            *(topic.id, name, tenant, clock.now_us(), settings.partitions, settings.value_kind),
            proof=settings.proof,
            limit_bytes=settings.limit_bytes,
            schema=settings.schema or msgspec.UNSET,
            metadata=dict(settings.metadata) or msgspec.UNSET,
        )
        entry = replace(self._entry(stored, directory), settings=settings)
        self._store(entry)
        return self._remember(entry)

    def _store(self, entry: TopicEntry, *, is_dropped: bool = False) -> None:
        topic, settings = entry.topic, entry.settings
        stored = _StoredTopic(
            *(topic.id, topic.name, topic.tenant, entry.created_at_us),
            *(settings.partitions, settings.value_kind),
            *(settings.retention_age_s, settings.retention_bytes),
            is_dropped=is_dropped,
            proof=settings.proof,
            limit_bytes=settings.limit_bytes,
            schema=settings.schema or msgspec.UNSET,
            metadata=dict(settings.metadata) or msgspec.UNSET,
        )
        unique = str(self._root.clock.new_id())
        checked.store(self._io, entry.path, KIND, stored, unique=unique)

    def _unknown(self, name: str, tenant: Tenant | None) -> InvalidError:
        is_internal = name.startswith(RESERVED_PREFIX)
        names = [
            other
            for whose, other in self._by_name
            if whose == tenant and other.startswith(RESERVED_PREFIX) == is_internal
            if other != name
        ]
        near = difflib.get_close_matches(name, names, _NEAR_MAX)
        return InvalidError(
            "there is no such topic, create it first or mend the name", topic=name, near=near
        )


def has_records(io: Io, directory: str) -> bool:
    """Whether a topic's directory holds any record, or what is left of one."""
    try:
        for name in io.list(directory):
            segments = os.path.join(directory, name, SEGMENTS)
            if io.exists(segments):
                paths = (os.path.join(segments, each) for each in io.list(segments))
                if any(begins_with_frame(io, path) for path in paths):
                    return True
    except FileNotFoundError:
        pass  # Somebody removes it right now.
    return False


def _settings(stored: _StoredTopic) -> TopicSettings:
    return TopicSettings(
        partitions=stored.partitions,
        value_kind=stored.value_kind,
        retention_age_s=stored.retention_age_s,
        retention_bytes=stored.retention_bytes,
        proof=stored.proof,
        limit_bytes=stored.limit_bytes,
        schema=stored.schema or None,
        metadata=sorted_metadata(stored.metadata or None),
    )
