"""Updates the Delta table of a topic from the segment catalogue."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec
import pyarrow as pa

from strandline.clock import Clock
from strandline.log import Log
from strandline.log.columns import BYTES_SCHEMA, EVENT_SCHEMA
from strandline.tiering.delta.checkpoints import checkpoint
from strandline.tiering.delta.schema import (
    TableColumns,
    needs_local_times,
    schema_text,
    table_schema,
)
from strandline.tiering.delta.statistics import bounded_columns, statistics_text
from strandline.tiering.delta.transaction_log import (
    FEATURE,
    FOLDER,
    Snapshot,
    TransactionLog,
    commit_store,
    encoded_path,
)
from strandline.tiering.footer import Footer
from strandline.tiering.object_store import ObjectStore
from strandline.tiering.routing import topic_folder
from strandline.tiering.segment import CopiedSegment
from strandline.tiering.table_files import TableFiles, spans
from strandline.values import Topic, UnavailableError, ValueKind

_ATTEMPTS_MAX: Final = 20
_NO_STATISTICS: Final = '{"minValues":{}}'

_logger = logging.getLogger("strandline")


def has_table(store: ObjectStore, topic: Topic) -> bool:
    """Whether the topic has a Delta table in the store."""
    return bool(store.list(f"{topic_folder(topic)}/{FOLDER}"))


def publish(log: Log, files: TableFiles, clock: Clock) -> None:
    """Update the table to the files that it should have.

    Any number of processes may do this concurrently. UnavailableError if others keep committing.
    """
    table = _DeltaTable(log, files, clock)
    for _ in range(_ATTEMPTS_MAX):
        # Read the table first and the catalogue second: then the catalogue includes everything
        # that the commits seen were made from, so that no commit reverts another.
        snapshot = table.log.snapshot()
        files.catalogue.refresh()
        actions = table.changes(snapshot)
        if not actions:
            return
        if table.log.commit(snapshot.version + 1, actions):
            checkpoint(files.store, table.folder, snapshot.version + 1)
            return
    raise UnavailableError("other processes keep committing to this Delta table, try again")


class _DeltaTable:
    """The intended content of a topic's table."""

    def __init__(self, log: Log, files: TableFiles, clock: Clock) -> None:
        self._log_id = log.id
        self._clock = clock
        self._files = files
        self._topic = files.topic
        self.folder = files.folder
        self._application = f"strandline-{self._topic.id}"
        self._columns = TableColumns()
        self._texts: dict[str, str] = {}
        self.log = TransactionLog(commit_store(files.store), self.folder, self._application)

    def changes(self, snapshot: Snapshot) -> list[Mapping[str, Any]]:
        """Return the actions of the next commit; empty if the snapshot is as intended."""
        # Trust nothing of another program's commits: neither columns, nor that a file
        # exists.
        known = {} if snapshot.foreign else snapshot.files
        self._columns = TableColumns() if snapshot.foreign else snapshot.columns
        wanted = self._files.wanted(known, self._fit)
        added = [each for path, each in wanted.items() if path not in known]
        removed = [
            each
            for path, each in snapshot.files.items()
            if path not in wanted or each.get("deletionVector")
        ]
        kept = [snapshot.files[path] for path in wanted if path in known]
        columns = self._bounded(added, kept, self._columns)
        text = columns.text or snapshot.columns.text
        is_new = snapshot.version < 0
        is_older = FEATURE not in snapshot.features or snapshot.columns.bounded is None
        is_open = is_older and not is_new
        if not (added or removed or is_open or snapshot.foreign):
            return []
        self._warn(snapshot, removed)
        assert text is not None
        moved = _moved(added, snapshot.files) | self._unchanged(added, snapshot)
        actions: list[Mapping[str, Any]] = [self._information(wanted, added, removed, moved)]
        if columns != snapshot.columns or is_open or snapshot.foreign:
            actions.append({"protocol": _protocol(text)})
            actions.append({"metaData": self._metadata(text, columns)})
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
        return {each.id.hex for each in added if self._files.path(each) in there}

    def _fit(self, footer: Footer) -> None:
        """Widen the table's columns to those of a file; InvalidError if they do not fit."""
        text = schema_text(table_schema([_value_columns(footer)]))
        about = {"topic": self._topic.name, "folder": f"{self.folder}/{FOLDER}"}
        self._columns = self._columns.widened(text, **about)

    def _bounded(
        self,
        added: Sequence[CopiedSegment],
        kept: Sequence[Mapping[str, Any]],
        columns: TableColumns,
    ) -> TableColumns:
        """Return the columns, with which of them have bounds in all files."""
        known = () if columns.bounded is not None else kept
        texts = [each.get("stats") or _NO_STATISTICS for each in known]
        texts += [self._statistics(each) for each in added]
        return columns.within_bounds(bounded_columns(each) for each in texts)

    def _statistics(self, segment: CopiedSegment) -> str:
        if segment.name not in self._texts:
            self._texts[segment.name] = statistics_text(self._files.footer(segment))
        return self._texts[segment.name]

    # --- actions ---

    def _addition(self, segment: CopiedSegment, moved: AbstractSet[str]) -> Mapping[str, Any]:
        return {
            "add": {
                "path": encoded_path(self._files.path(segment)),
                "partitionValues": {},
                "size": segment.size_bytes,
                "modificationTime": segment.changed_at_us // 1000,
                "dataChange": segment.id.hex not in moved,
                "stats": self._statistics(segment),
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
        catalogue = self._files.catalogue
        parts = catalogue.health().partitions
        numbers = {catalogue.partition_of(place) for place in self._files.places}
        steps = sum(parts[number].applied for number in numbers if number in parts)
        return {"appId": self._application, "version": steps, "lastUpdated": self._now_ms()}

    def _information(
        self,
        wanted: Mapping[str, CopiedSegment],
        added: Sequence[CopiedSegment],
        removed: Sequence[Any],
        moved: AbstractSet[str],
    ) -> Mapping[str, Any]:
        """Return the commit's author, and the range of each partition after it."""
        about = {
            "log_id": str(self._log_id),
            "topic": self._topic.name,
            "topic_id": str(self._topic.id),
            "partitions": spans(wanted.values()),
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

    def _metadata(self, text: str, columns: TableColumns) -> Mapping[str, Any]:
        return {
            "id": str(self._topic.id),
            "name": self._topic.name,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": text,
            "partitionColumns": [],
            "configuration": columns.properties,
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
