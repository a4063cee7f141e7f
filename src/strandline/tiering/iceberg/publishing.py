"""Updates the Iceberg table of a topic from the segment catalogue."""

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec
import pyarrow as pa

from strandline.clock import Clock
from strandline.log import Log
from strandline.tiering.footer import Footer
from strandline.tiering.iceberg.columns import replaced_columns, widened_columns
from strandline.tiering.iceberg.place import (
    TableName,
    base_of,
    forget_name,
    opened_catalogue,
    record_name,
    recorded_name,
    require_pyiceberg,
)
from strandline.tiering.object_store import ObjectStore
from strandline.tiering.segment import CopiedSegment
from strandline.tiering.table_files import TableFiles, spans
from strandline.values import InvalidError, Topic, UnavailableError, ValueKind
from strandline.values.instants import datetime_at

_ATTEMPTS_MAX: Final = 20
#: How many versions a table keeps, and for how long at least.
VERSIONS_MAX: Final = 100
VERSIONS_KEPT: Final = timedelta(days=1)
_TOPIC_ID: Final = "strandline.topic-id"
_PROPERTIES: Final = {
    # pyiceberg would commit again what another commit has made wrong: files twice, for example.
    "commit.retry.num-retries": "0",
    # The objects are the tier: no program may delete them because no version has them any more.
    "gc.enabled": "false",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
#: Manifests of removed files stay, and must not keep the smallest and greatest text of a person
#: whose records were erased. Records of batches cannot be erased.
_UNBOUNDED: Final = {
    f"write.metadata.metrics.column.{each}": "counts"
    for each in ("_key", "payload", "headers", "value")
}

_logger = logging.getLogger("strandline")


def check_place(store: ObjectStore, topic: Topic, name: TableName) -> None:
    """Raise the error of `publish` for a name or store that can have no table of this topic."""
    base_of(store)
    recorded = recorded_name(store, topic)
    with opened_catalogue(name) as tables:
        _loaded(tables, name, topic)
    if recorded in (None, name):
        return
    with opened_catalogue(recorded) as tables:
        if _loaded(tables, recorded, topic) is not None:
            raise InvalidError(
                "the objects of this topic are another Iceberg table already; drop that one in "
                "its catalogue first, without purging it",
                iceberg=str(recorded),
            )


def publish(
    log: Log,
    files: TableFiles,
    clock: Clock,
    recorded: TableName | None,
    wanted: TableName | None,
) -> None:
    """Update the table to the files that it should have: the recorded one, or another one.

    Makes it if it is `wanted`; else does nothing if there is none. Any number of processes may
    do this concurrently. InvalidError for a name that another table has; UnavailableError if
    the catalogue of tables fails, or others keep committing.
    """
    name = recorded
    if wanted is not None and wanted != name:
        check_place(files.store, files.topic, wanted)
        name = wanted
    if name is None:
        return
    table = _IcebergTable(log, files, clock, name)
    failed = require_pyiceberg().exceptions.CommitFailedException
    with opened_catalogue(name) as tables:
        for _ in range(_ATTEMPTS_MAX):
            try:
                table.update(tables, may_create=wanted is not None)
            except failed:
                continue  # Another process was first.
            return
    raise UnavailableError("other processes keep committing to this Iceberg table, try again")


def drop(store: ObjectStore, topic: Topic) -> None:
    """Remove the table of a dropped topic from its catalogue, if it has one."""
    name = recorded_name(store, topic)
    if name is None:
        return
    with opened_catalogue(name) as tables:
        if _loaded(tables, name, topic) is not None:
            tables.drop_table(name.table)
    forget_name(store, topic)


def _loaded(tables: Any, name: TableName, topic: Topic) -> Any:
    """Return the topic's table; None if there is none, InvalidError if it is not the topic's."""
    errors = require_pyiceberg().exceptions
    try:
        table = tables.load_table(name.table)
    except (errors.NoSuchTableError, errors.NoSuchNamespaceError):
        return None
    if table.properties.get(_TOPIC_ID) != str(topic.id):
        raise InvalidError(
            "this Iceberg table is not of this topic, choose another name", iceberg=str(name)
        )
    return table


class _IcebergTable:
    """The intended content of a topic's table."""

    def __init__(self, log: Log, files: TableFiles, clock: Clock, name: TableName) -> None:
        self._log = log
        self._files = files
        self._clock = clock
        self._name = name
        self._columns: pa.Schema | None = None
        self._settings = _PROPERTIES
        #: The prefix of an object's path in the topic's folder.
        self._base = f"{base_of(files.store)}{files.folder}/"

    def update(self, tables: Any, *, may_create: bool) -> None:
        """Update the table to the catalogue's content, in one commit.

        Raises pyiceberg's CommitFailedException if another process has committed meanwhile.
        """
        # Read the table first and the catalogue second: then the catalogue includes everything
        # that the commits seen were made from, so that no commit reverts another.
        table = _loaded(tables, self._name, self._files.topic)
        if table is None and not may_create:
            return
        there, is_foreign = self._content(table)
        self._files.catalogue.refresh()
        self._columns = None if table is None or is_foreign else table.schema().as_arrow()
        wanted = self._wanted({} if is_foreign else there)
        added = [path for path in wanted if is_foreign or path not in there]
        removed = [each for path, each in there.items() if is_foreign or path not in wanted]
        if table is not None:
            self._set_properties(table)
        if not (added or removed):
            return
        if table is None:
            table = self._created(tables)
            self._set_properties(table)
        properties = self._properties(wanted)
        with table.transaction() as commit:
            self._set_columns(commit, is_foreign=is_foreign)
            if removed:
                with commit.update_snapshot(snapshot_properties=properties).overwrite() as left:
                    for each in removed:
                        left.delete_data_file(each)
            if added:
                locations = [self._base + path for path in added]
                # Their names are unique, and an object that is put back is there twice meanwhile.
                commit.add_files(locations, properties, check_duplicate_files=False)
        self._forget_versions(table)

    def _set_properties(self, table: Any) -> None:
        """Set the table's properties in a commit before others, which go by them."""
        if any(table.properties.get(name) != value for name, value in self._settings.items()):
            with table.transaction() as commit:
                commit.set_properties(self._settings)

    def _set_columns(self, commit: Any, *, is_foreign: bool) -> None:
        """Bring the table's columns to those of the files, and remove what others have added."""
        spec = commit.table_metadata.spec()
        if spec.fields:
            with commit.update_spec() as update:
                for each in spec.fields:
                    update.remove_field(each.name)
        known = commit.table_metadata.schema().as_arrow()
        if self._columns is None:  # There are no files.
            return
        removed = [*replaced_columns(known, self._columns)]
        if is_foreign:
            removed += [name for name in known.names if name not in self._columns.names]
        with commit.update_schema() as schema:
            for column in removed:
                schema.delete_column(column)
        with commit.update_schema() as schema:
            schema.union_by_name(self._columns)

    def _wanted(self, known: Mapping[str, Any]) -> Mapping[str, CopiedSegment]:
        """Return the files of the table, and set its columns.

        If these cost it files, the columns are begun again, without those of files that have
        been merged or deleted: otherwise a table could stay without any file for ever.
        """
        is_new = self._columns is None
        wanted = self._files.wanted(known, self._fit)
        is_kept = known and known.keys() <= wanted.keys()
        if is_new or is_kept or self._files.end.unfit is None:
            return wanted
        columns, end = self._columns, self._files.end
        self._columns = None
        others = self._files.wanted({}, self._fit)
        if _records(others) > _records(wanted):
            return others
        self._columns, self._files.end = columns, end
        return wanted

    def _fit(self, footer: Footer) -> None:
        """Widen the table's columns to those of a file; InvalidError if they do not fit."""
        self._columns = widened_columns(self._columns, footer)
        if footer.kind is not ValueKind.BATCH:
            self._settings = _PROPERTIES | _UNBOUNDED

    def _content(self, table: Any) -> tuple[Mapping[str, Any], bool]:
        """Return the table's files by path, and whether another program has changed it last."""
        latest = None if table is None else table.current_snapshot()
        if latest is None:
            return {}, False
        found = {
            task.file.file_path.removeprefix(self._base): task.file
            for task in table.scan().plan_files()
        }
        is_foreign = _of(latest) != str(self._files.topic.id) or (
            bool(found) and not _has_columns_of(latest, table.metadata)
        )
        if is_foreign:
            paths = (each.file_path for each in found.values())
            others = [path for path in paths if not path.startswith(self._base)]
            _logger.warning(
                "another program has changed the Iceberg table %s, it is put back; files that it "
                "has written leave the table and stay where they are: %s",
                self._name,
                ", ".join(others) or "none",
            )
        return found, is_foreign

    def _created(self, tables: Any) -> Any:
        topic = self._files.topic
        errors = require_pyiceberg().exceptions
        properties = {_TOPIC_ID: str(topic.id)}
        # First, so that a process that deletes objects finds the table.
        record_name(self._files.store, topic, self._name)
        tables.create_namespace_if_not_exists(self._name.table.rpartition(".")[0])
        try:
            return tables.create_table(self._name.table, self._columns, properties=properties)
        except errors.TableAlreadyExistsError as error:
            raise errors.CommitFailedException("created by another process") from error

    def _properties(self, wanted: Mapping[str, CopiedSegment]) -> dict[str, str]:
        about = {"log_id": str(self._log.id), "topic": self._files.topic.name}
        return {
            _TOPIC_ID: str(self._files.topic.id),
            "strandline.content": msgspec.json.encode(
                {**about, "partitions": spans(wanted.values())}
            ).decode(),
        }

    def _forget_versions(self, table: Any) -> None:
        """Keep the table's metadata small, which each commit writes as a whole."""
        if len(table.snapshots()) <= VERSIONS_MAX:
            return
        until = datetime_at(self._clock.now_us()) - VERSIONS_KEPT
        if datetime_at(table.snapshots()[0].timestamp_ms * 1000) < until:
            table.maintenance.expire_snapshots().older_than(until).commit()


def _records(wanted: Mapping[str, CopiedSegment]) -> int:
    return sum(each.end - each.start for each in wanted.values())


def _has_columns_of(snapshot: Any, metadata: Any) -> bool:
    """Whether no program has changed the columns, their names in files or the partitions since."""
    is_same = snapshot.schema_id in (None, metadata.current_schema_id)
    return is_same and metadata.name_mapping() is not None and not metadata.spec().fields


def _of(snapshot: Any) -> str | None:
    """Return the topic that a version was written for; None if another program wrote it."""
    summary = snapshot.summary
    return None if summary is None else summary.additional_properties.get(_TOPIC_ID)
