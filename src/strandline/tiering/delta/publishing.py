"""Updates the Delta table of a topic from the segment catalogue."""

import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec
import pyarrow as pa

from strandline.clock import Clock
from strandline.log import Log
from strandline.log.columns import BYTES_SCHEMA, EVENT_SCHEMA
from strandline.tiering.catalogue import SegmentCatalogue
from strandline.tiering.delta.checkpoints import checkpoint
from strandline.tiering.delta.schema import (
    APART,
    TableColumns,
    needs_local_times,
    schema_text,
    table_schema,
)
from strandline.tiering.delta.statistics import statistics_text
from strandline.tiering.delta.transaction_log import (
    FEATURE,
    FOLDER,
    CommitStore,
    Snapshot,
    TransactionLog,
    commit_store,
    encoded_path,
)
from strandline.tiering.footer import Footer
from strandline.tiering.object_store import ObjectStore
from strandline.tiering.routing import topic_folder
from strandline.tiering.segment import CopiedSegment, UserPartition
from strandline.values import InvalidError, Topic, UnavailableError, ValueKind

_ATTEMPTS_MAX: Final = 20

_logger = logging.getLogger("strandline")


def has_table(store: ObjectStore, topic: Topic) -> bool:
    """Whether the topic has a Delta table in the store."""
    return bool(store.list(f"{topic_folder(topic)}/{FOLDER}"))


def check_columns(content: bytes) -> None:
    """Raise InvalidError if a Delta table cannot have columns for an object's values."""
    TableColumns().widened(schema_text(table_schema([_value_columns(Footer(content))])))


def publish(
    log: Log,
    catalogue: SegmentCatalogue,
    places: Sequence[UserPartition],
    store: ObjectStore,
    clock: Clock,
) -> Sequence[CopiedSegment]:
    """Update the table to the catalogue's content for these partitions, all of one topic.

    Returns for each partition its first missing or damaged copy, if there is one: neither it
    nor what follows is in the table. Any number of processes may do this concurrently.
    InvalidError for data that a Delta table cannot hold; UnavailableError if others keep
    committing.
    """
    table = _Table(log, catalogue, places, commit_store(store), clock)
    for _ in range(_ATTEMPTS_MAX):
        # Read the table first and the catalogue second: then the catalogue includes everything
        # that the commits seen were made from, so that no commit reverts another.
        snapshot = table.log.snapshot()
        catalogue.refresh()
        actions = table.changes(snapshot)
        if not actions:
            return table.lost
        if table.log.commit(snapshot.version + 1, actions):
            checkpoint(store, table.folder, snapshot.version + 1)
            return table.lost
    raise UnavailableError("other processes keep committing to this Delta table, try again")


class _Table:
    """The intended content of a topic's table."""

    def __init__(
        self,
        log: Log,
        catalogue: SegmentCatalogue,
        places: Sequence[UserPartition],
        store: CommitStore,
        clock: Clock,
    ) -> None:
        self._log_id = log.id
        self._catalogue = catalogue
        self._places = places
        self._store = store
        self._clock = clock
        self._topic = places[0].named()
        self.folder = topic_folder(self._topic)
        self._application = f"strandline-{self._topic.id}"
        self._footers: dict[str, Footer | None] = {}
        #: The copies at which the table ends, as found by `changes`.
        self.lost: list[CopiedSegment] = []
        self.log = TransactionLog(store, self.folder, self._application)

    def changes(self, snapshot: Snapshot) -> list[Mapping[str, Any]]:
        """Return the actions of the next commit; empty if the snapshot is as intended."""
        self.lost = []
        # Trust nothing of another program's commits: neither columns, nor that a file
        # exists.
        known = {} if snapshot.foreign else snapshot.files
        wanted = {
            self._path(segment): segment
            for place in self._places
            for segment in self._run(place, known)
        }
        added = [each for path, each in wanted.items() if path not in known]
        removed = [
            each
            for path, each in snapshot.files.items()
            if path not in wanted or each.get("deletionVector")
        ]
        columns = self._columns(added, TableColumns() if snapshot.foreign else snapshot.columns)
        text = columns.text or snapshot.columns.text
        is_new = snapshot.version < 0
        is_open = FEATURE not in snapshot.features and not is_new
        if not (added or removed or is_open or snapshot.foreign):
            return []
        self._warn(snapshot, removed)
        assert text is not None
        moved = _moved(added, snapshot.files) | self._unchanged(added, snapshot)
        actions: list[Mapping[str, Any]] = [self._information(wanted, added, removed, moved)]
        if columns != snapshot.columns or is_open or snapshot.foreign:
            actions.append({"protocol": _protocol(text)})
            actions.append({"metaData": self._metadata(text, columns.apart)})
        actions.append({"txn": self._transaction()})
        # Removals first: a path in both is in the table in the end.
        actions += [self._removal(each, moved) for each in removed]
        actions += [self._addition(each, moved) for each in added]
        return actions

    def _warn(self, snapshot: Snapshot, removed: Sequence[Mapping[str, Any]]) -> None:
        if not snapshot.foreign:
            return
        others = [each["path"] for each in removed if "strandline.start" not in _tags(each)]
        _logger.warning(
            "another program has changed the Delta table %s in versions %s, it is put back; "
            "files that it has written leave the table and stay in the store: %s",
            self.folder,
            snapshot.foreign,
            ", ".join(others) or "none",
        )

    def _unchanged(self, added: Sequence[CopiedSegment], snapshot: Snapshot) -> AbstractSet[str]:
        """Return the ids of files that are added again and that the table has already."""
        there = {path for path, each in snapshot.files.items() if not each.get("deletionVector")}
        return {each.id.hex for each in added if self._path(each) in there}

    # --- what it should hold ---

    def _run(self, place: UserPartition, known: Container[str]) -> list[CopiedSegment]:
        """Return adjacent finished copies in the table's folder.

        Files that are not in `known` are checked for existence.
        """
        if self._catalogue.deletion(place) is not None:
            return []
        found: list[CopiedSegment] = []
        for segment in self._catalogue.current(place):
            if not self._is_here(segment):
                continue
            if found and segment.end <= found[-1].end:
                continue  # Another copy of records that are covered already.
            if found and segment.start != found[-1].end:
                _logger.warning("%s does not follow the copies before it", segment.location)
                break
            if self._path(segment) not in known and self._footer(segment) is None:
                _logger.warning(
                    "%s is missing or damaged, it is not in the Delta table, nor is what follows; "
                    "restore it from a copy of the store, or tier again if the log has its records",
                    segment.location,
                )
                self.lost.append(segment)
                break
            found.append(segment)
        return found

    def _is_here(self, segment: CopiedSegment) -> bool:
        return segment.store == self._store.url and segment.name.startswith(f"{self.folder}/")

    def _path(self, segment: CopiedSegment) -> str:
        return segment.name.removeprefix(f"{self.folder}/")

    def _footer(self, segment: CopiedSegment) -> Footer | None:
        if segment.name not in self._footers:
            self._footers[segment.name] = Footer.of(self._store, segment.name, segment.size_bytes)
        return self._footers[segment.name]

    def _columns(self, added: Sequence[CopiedSegment], known: TableColumns) -> TableColumns:
        """Return the columns of the table, including those of these files."""
        batches: list[pa.Schema] = []
        others: dict[pa.Schema, None] = {}
        for segment in added:
            footer = self._footer(segment)
            assert footer is not None
            if footer.kind is ValueKind.BATCH:
                batches.append(_value_columns(footer))
            else:
                others[_value_columns(footer)] = None
        for schema in _together(batches) if batches else [table_schema([each]) for each in others]:
            known = known.widened(
                schema_text(schema), topic=self._topic.name, folder=f"{self.folder}/{FOLDER}"
            )
        return known

    # --- actions ---

    def _addition(self, segment: CopiedSegment, moved: AbstractSet[str]) -> Mapping[str, Any]:
        footer = self._footer(segment)
        assert footer is not None
        return {
            "add": {
                "path": encoded_path(self._path(segment)),
                "partitionValues": {},
                "size": segment.size_bytes,
                "modificationTime": segment.changed_at_us // 1000,
                "dataChange": segment.id.hex not in moved,
                "stats": statistics_text(footer),
                "tags": {
                    "strandline.partition": str(segment.place.partition),
                    "strandline.start": str(segment.start),
                    "strandline.end": str(segment.end),
                    "strandline.digest": segment.digest,
                },
            }
        }

    def _removal(self, added: Mapping[str, Any], moved: AbstractSet[str]) -> Mapping[str, Any]:
        removal = {
            "path": added["path"],
            "deletionTimestamp": self._now_ms(),
            "dataChange": _id_in(added["path"]) not in moved,
            "extendedFileMetadata": True,
            "partitionValues": dict(added.get("partitionValues") or {}),
            "size": added["size"],
        }
        if vector := added.get("deletionVector"):
            removal["deletionVector"] = vector
        return {"remove": removal}

    def _transaction(self) -> Mapping[str, Any]:
        parts = self._catalogue.health().partitions
        steps = sum(parts[number].applied for number in self._numbers() if number in parts)
        return {"appId": self._application, "version": steps, "lastUpdated": self._now_ms()}

    def _numbers(self) -> set[int]:
        return {self._catalogue.partition_of(place) for place in self._places}

    def _information(
        self,
        wanted: Mapping[str, CopiedSegment],
        added: Sequence[CopiedSegment],
        removed: Sequence[Any],
        moved: AbstractSet[str],
    ) -> Mapping[str, Any]:
        """Return the commit's author, and the range of each partition after it."""
        spans: dict[str, dict[str, int]] = {}
        for segment in wanted.values():
            span = spans.setdefault(str(segment.place.partition), {"start": segment.start})
            span |= {"end": segment.end, "epoch": segment.epochs[-1][0]}
        about = {
            "log_id": str(self._log_id),
            "topic": self._topic.name,
            "topic_id": str(self._topic.id),
            "partitions": spans,
        }
        is_new = any(each.id.hex not in moved for each in added)
        operation = "WRITE" if is_new else "OPTIMIZE" if added else "DELETE"
        return {
            "commitInfo": {
                "timestamp": self._now_ms(),
                "operation": operation,
                "operationParameters": {"mode": "Append"} if is_new else {},
                "operationMetrics": {
                    "numFiles": str(len(added)),
                    "numRemovedFiles": str(len(removed)),
                },
                "engineInfo": "strandline",
                "userMetadata": msgspec.json.encode(about).decode(),
            }
        }

    def _metadata(self, text: str, apart: AbstractSet[str]) -> Mapping[str, Any]:
        return {
            "id": str(self._topic.id),
            "name": self._topic.name,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": text,
            "partitionColumns": [],
            "configuration": {APART: " ".join(sorted(apart))} if apart else {},
            "createdTime": self._now_ms(),
        }

    def _now_ms(self) -> int:
        return self._clock.now_us() // 1000


def _protocol(text: str) -> Mapping[str, Any]:
    protocol: dict[str, Any] = {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "writerFeatures": [FEATURE],
    }
    if needs_local_times(text):
        protocol["minReaderVersion"] = 3
        protocol["readerFeatures"] = ["timestampNtz"]
        protocol["writerFeatures"] = [FEATURE, "timestampNtz"]
    return protocol


def _together(batches: Sequence[pa.Schema]) -> list[pa.Schema]:
    """Return the columns of a table over all of these, or of each if they do not go together."""
    try:
        return [table_schema(batches)]
    except InvalidError:
        # One after the other, as in runs of their own: what is wrong has a name then.
        return [table_schema([each]) for each in batches]


def _value_columns(footer: Footer) -> pa.Schema:
    """Return the columns of a batch topic's values, or of events or bytes."""
    if footer.kind is ValueKind.BATCH:
        return footer.value_columns
    plain = list(EVENT_SCHEMA if footer.kind is ValueKind.EVENT else BYTES_SCHEMA)
    return pa.schema(plain if footer.fields is None else [*plain, footer.fields])


def _moved(added: Sequence[CopiedSegment], files: Iterable[str]) -> AbstractSet[str]:
    """Return the ids, in hexadecimal, of files whose unchanged rows are merged into one.

    If the table lacked some of the merged files, the merge adds rows.
    """
    known = {_id_in(path) for path in files}
    found: set[str] = set()
    for segment in added:
        merged = {each.hex for each in segment.merges}
        if merged and merged <= known:
            found |= {segment.id.hex, *merged}
    return found


def _tags(added: Mapping[str, Any]) -> Mapping[str, str]:
    return dict(added.get("tags") or {})


def _id_in(path: str) -> str:
    """Return the id at the end of an object's name; something else for other files."""
    return path.rpartition("-")[2].removesuffix(".parquet")
