"""The topics of a log: a directory for each, with a file that describes it."""

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from strandline.io import Io
from strandline.log.chain import Chain
from strandline.log.topics import TopicNames, check_new_topic
from strandline.stores.files import checked
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.place import SEGMENTS, TOPIC, Place
from strandline.stores.files.root import Root, TopicsVersion
from strandline.stores.files.segment import begins_with_frame
from strandline.values import (
    CorruptError,
    EarlierPartitions,
    InvalidError,
    Partition,
    Tenant,
    Topic,
    TopicSettings,
    ValueKind,
    sorted_metadata,
)

if TYPE_CHECKING:
    from strandline.stores.files.lane import Lane

KIND = "topic"
KEYS = "keys"


class _StoredTopic(msgspec.Struct, frozen=True):
    id: UUID
    name: str
    tenant: str | None
    created_at_us: int
    partitions: int
    value_kind: ValueKind
    retention_age_s: int | None = None
    retention_bytes: int | None = None
    #: Set before anything is removed: a topic without this file is damaged, not dropped.
    is_dropped: bool = False
    proof: bool = False
    limit_bytes: int | None = None
    #: Left out if there is none, as are the fields below.
    schema: bytes | msgspec.UnsetType = msgspec.UNSET
    metadata: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    #: The names, without suffix, of the key files that must exist.
    keys: tuple[str, ...] = ()
    earlier_partitions: tuple[EarlierPartitions, ...] | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True, eq=False)
class TopicEntry:
    """A topic as it is stored, and its partitions' files."""

    topic: Topic
    settings: TopicSettings
    created_at_us: int
    directory: str
    #: The file that declares the topic.
    path: str
    partitions: tuple[PartitionFiles, ...]
    #: The key files that must exist, as `fresh` read them.
    keys: frozenset[str] = frozenset()
    #: The lanes of its partitions that this process has opened.
    lanes: "dict[int, Lane]" = field(default_factory=dict)

    def close_files(self) -> None:
        """Close every file of its partitions: a removed file that is open keeps its space."""
        for files in self.partitions:
            files.close_files()


class FileTopics:
    """Finds and changes topics. Any thread may use it."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._io = root.io
        # Only settings such as retention change, and partitions are only added: an entry with
        # more of them replaces the one before.
        self._entries: dict[UUID, TopicEntry] = {}
        self._by_name: dict[tuple[Tenant | None, str], TopicEntry] = {}
        self._names = TopicNames()
        self._extending = threading.Lock()
        #: The version of the topics loaded here; None if there may be others by now.
        self._version: TopicsVersion | None = None
        # A damaged topic's name is unknown: then it is never certain that a topic is missing.
        self._damaged: CorruptError | None = None

    def find(self, tenant: Tenant | None, name: str) -> TopicEntry | None:
        """Return the topic; CorruptError if it may be one whose name cannot be read."""
        entry = self._by_name.get((tenant, name))
        if entry is None or not self._io.exists(entry.path):
            self._look()
            entry = self._by_name.get((tenant, name))
        if entry is None:
            self._check_damage()
        return entry

    def find_id(self, topic_id: UUID) -> TopicEntry | None:
        """Return the topic of this id."""
        entry = self._entries.get(topic_id)
        if entry is None or not self._io.exists(entry.path):
            self._look()
            entry = self._entries.get(topic_id)
        return entry

    def fresh(self, entry: TopicEntry) -> TopicEntry | None:
        """Return the topic with its current retention and keys.

        None if it was dropped.
        """
        try:
            stored = self._load(entry.directory)
        except FileNotFoundError:
            return None
        if stored.is_dropped:
            return None
        if stored.partitions > len(entry.partitions):
            entry = self._extended(stored, entry.directory)
        return replace(entry, settings=_settings(stored), keys=frozenset(stored.keys))

    def all(self) -> list[TopicEntry]:
        """Return the topics of all tenants."""
        self._look()
        self._check_damage()
        return list(self._entries.values())

    def close_files(self) -> None:
        """Close every file."""
        for entry in tuple(self._entries.values()):
            entry.close_files()

    # --- changes; the caller holds the lock for them ---

    def create(self, name: str, tenant: Tenant | None, settings: TopicSettings) -> TopicEntry:
        """Create the topic and return it, or return an equal one that exists."""
        self._look()
        entry = self._by_name.get((tenant, name))
        known = None if entry is None else self.fresh(entry)
        if known is None:
            self._check_damage()
        case_variants = self._names.case_variants(tenant, name)
        check_new_topic(name, settings, None if known is None else known.settings, case_variants)
        if known is not None:
            return known
        topic = Topic(name, self._root.clock.new_id(), tenant)
        with self._root.changing_topics(topic.id.bytes):
            made = self._make(topic, settings)
        self._version = self._root.topics_version()
        return made

    def change_settings(self, entry: TopicEntry, settings: TopicSettings) -> TopicEntry:
        """Replace the settings of a topic, and create added partitions."""
        added = range(entry.settings.partitions, settings.partitions)
        if added:
            self._make_partitions(entry.directory, added)
            self._io.sync_directory(entry.directory)
        changed = replace(entry, settings=settings)
        self.store(changed)
        return changed

    @contextlib.contextmanager
    def dropping(self, entry: TopicEntry) -> Iterator[None]:
        """Mark the topic as dropped, for a block that removes its files."""
        change = sha256(b"strandline drop" + entry.topic.id.bytes).digest()[:16]
        with self._root.changing_topics(change):
            self.store(entry, is_dropped=True)
            self._uncache(entry)
            yield
        self._version = self._root.topics_version()

    def list_key(self, entry: TopicEntry, key: str, *, is_there: bool) -> None:
        """List a key file as one that must exist, or remove it from the list. Takes the lock."""
        found = self.fresh(entry)
        if found is None or (key in found.keys) is is_there:
            return
        with self._root.changing():
            found = self.fresh(entry)
            if found is not None:
                changed = found.keys | {key} if is_there else found.keys - {key}
                self.store(replace(found, keys=changed))

    def remains(self) -> Sequence[str]:
        """Return the directories of topics that were dropped, or whose creation was interrupted."""
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
        """Load topics that other processes have created or dropped."""
        version = self._root.topics_version()
        if version is not None and version == self._version:
            return
        self._look_at_each()
        # A change made meanwhile has another version.
        self._version = version if self._damaged is None else None

    def _look_at_each(self) -> None:
        found = set(self._io.list(self._root.topics))
        for entry in tuple(self._entries.values()):
            if str(entry.topic.id) not in found or not self._io.exists(entry.path):
                self._uncache(entry)
        known = {str(topic_id) for topic_id in self._entries}
        self._damaged = None
        for name in sorted(found - known):
            directory = os.path.join(self._root.topics, name)
            try:
                stored = self._load_created(directory)
                if stored is not None and not stored.is_dropped:
                    self._cache(self._entry(stored, directory))
            except FileNotFoundError:
                self._damaged = CorruptError(
                    "a topic has lost the file that names it", file=directory, position=0
                )
            except NotADirectoryError:
                pass  # Not a topic of ours.
            except CorruptError as error:
                self._damaged = error
        self._name_all()

    def _name_all(self) -> None:
        """Index each loaded topic by name: an interrupt, or another thread, may have intervened."""
        for entry in tuple(self._entries.values()):
            self._name(entry)

    def _check_damage(self) -> None:
        if self._damaged is not None:
            raise copy(self._damaged)

    def _cache(self, entry: TopicEntry) -> TopicEntry:
        known = self._entries.setdefault(entry.topic.id, entry)
        self._name(known)
        return known

    def _name(self, entry: TopicEntry) -> None:
        name = entry.topic.tenant, entry.topic.name
        self._names.add(*name)
        self._by_name[name] = entry

    def _uncache(self, entry: TopicEntry) -> None:
        name = entry.topic.tenant, entry.topic.name
        known = self._by_name.get(name)
        if known is not None and known.topic.id == entry.topic.id:
            self._names.discard(*name)
            self._by_name.pop(name, None)
        # Last: the next look removes whatever is still here.
        self._entries.pop(entry.topic.id, None)
        entry.close_files()

    def _load_created(self, directory: str) -> _StoredTopic | None:
        """Load a topic; None if it is not created yet, or dropped: then it has no records."""
        try:
            return self._load(directory)
        except FileNotFoundError:
            if not has_records(self._io, directory):
                return None
        # It may have been created, and written to, in between.
        return self._load(directory)

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
                    root.reserve,
                )
            )
            for number in range(settings.partitions)
        )
        path = os.path.join(directory, TOPIC)
        return TopicEntry(topic, settings, stored.created_at_us, directory, path, partitions)

    def _make(self, topic: Topic, settings: TopicSettings) -> TopicEntry:
        directory = os.path.join(self._root.topics, str(topic.id))
        self._io.mkdir(directory)
        self._io.sync_directory(self._root.topics)
        self._make_partitions(directory, range(settings.partitions))
        self._io.mkdir(os.path.join(directory, KEYS))
        # Before the topic is announced: its name may reach the disk before the partitions' names.
        self._io.sync_directory(directory)
        stored = _StoredTopic(
            *(topic.id, topic.name, topic.tenant, self._root.clock.now_us()),
            *(settings.partitions, settings.value_kind),
            proof=settings.proof,
            limit_bytes=settings.limit_bytes,
            schema=settings.schema or msgspec.UNSET,
            metadata=dict(settings.metadata) or msgspec.UNSET,
        )
        entry = replace(self._entry(stored, directory), settings=settings)
        self.store(entry)
        return self._cache(entry)

    def _make_partitions(self, directory: str, numbers: Iterable[int]) -> None:
        for number in numbers:
            partition = os.path.join(directory, str(number))
            # An existing one was left by a crash before the topic's file named it.
            for path in (partition, os.path.join(partition, SEGMENTS)):
                if not self._io.exists(path):
                    self._io.mkdir(path)
            self._io.sync_directory(partition)

    def _extended(self, stored: _StoredTopic, directory: str) -> TopicEntry:
        """Return the topic with all its partitions; objects of known ones are kept."""
        with self._extending:
            known = self._entries.get(stored.id)
            fresh = self._entry(stored, directory)
            if known is None:
                return fresh
            if len(known.partitions) < len(fresh.partitions):
                added = fresh.partitions[len(known.partitions) :]
                known = replace(
                    known, settings=fresh.settings, partitions=(*known.partitions, *added)
                )
                self._entries[stored.id] = known
                self._name(known)
            return known

    def store(self, entry: TopicEntry, *, is_dropped: bool = False) -> None:
        """Write the entry to its file, durably."""
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
            keys=tuple(sorted(entry.keys)),
            earlier_partitions=settings.earlier_partitions or msgspec.UNSET,
        )
        unique = str(self._root.clock.new_id())
        reserve = self._root.reserve
        checked.store(self._io, entry.path, KIND, stored, unique=unique, reserve=reserve)


def has_records(io: Io, directory: str) -> bool:
    """Whether a topic's directory holds any record, or remains of one."""
    try:
        for name in io.list(directory):
            segments = os.path.join(directory, name, SEGMENTS)
            if io.exists(segments):
                paths = (os.path.join(segments, each) for each in io.list(segments))
                if any(begins_with_frame(io, path) for path in paths):
                    return True
    except FileNotFoundError:
        pass  # Another process is removing it.
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
        earlier_partitions=stored.earlier_partitions or (),
    )
