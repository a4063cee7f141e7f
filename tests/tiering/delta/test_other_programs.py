"""Other programs cannot change a Delta table of a tier; changes by force are detected."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from strandline.tiering.delta.transaction_log import TransactionLog, commit_store
from strandline.tiering.routing import topic_folder
from strandline.values import CorruptError
from tests.tiering.delta.tables import log_over, objects_of, offsets_of, table_of, tabled
from tests.tiering.tiered import LogOver, filled

pytestmark = pytest.mark.slow


def test_other_writers_are_refused(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log)
        tabled(log)
        before = offsets_of(table_of(log, tmp_path))
        row = pa.table({"_partition": pa.array([0], pa.int32()), "_offset": [99]})
        calls: list[Callable[[DeltaTable], Any]] = [
            lambda table: table.optimize.compact(),
            lambda table: table.optimize.z_order(["_key"]),
            lambda table: table.delete("_offset = 1"),
            lambda table: table.delete(),
            lambda table: table.update({"_key": "'x'"}, predicate="_offset = 1"),
            lambda table: write_deltalake(table, row, mode="append"),
            lambda table: write_deltalake(table, row, mode="overwrite", schema_mode="overwrite"),
        ]

        for call in calls:
            with pytest.raises(CommitFailedError, match="strandlineTier"):
                call(table_of(log, tmp_path))

        assert offsets_of(table_of(log, tmp_path)) == before
        assert table_of(log, tmp_path).version() == 0


def test_a_vacuum_removes_nothing_that_the_tier_needs(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        records = filled(log, 30)
        tabled(log)
        log.trim("t", 0, 8)

        with pytest.raises(CommitFailedError, match="strandlineTier"):
            table_of(log, tmp_path).vacuum(
                retention_hours=0, enforce_retention_duration=False, dry_run=False
            )
        _vacuum(log, tmp_path)

        assert list(log.read("t", 0, 8)) == records[8:]
        assert offsets_of(table_of(log, tmp_path)) == list(range(7, 30))


def _vacuum(log: LogOver, folder: Path) -> None:
    """Delete what no file of the table is, as a program does that does not heed the protocol."""
    root = folder / "cold" / topic_folder(log.topic("t"))
    known = {Path(each) for each in table_of(log, folder).file_uris()}
    for path in root.rglob("*.parquet"):
        if path not in known:
            path.unlink()


def forced(log: LogOver, **actions: Any) -> None:
    """Commit what a program commits that does not heed the protocol."""
    table = TransactionLog(commit_store(log.objects), topic_folder(log.topic("t")), "other")
    snapshot = table.snapshot()
    removed = [
        {"remove": {"path": each["path"], "dataChange": False, "deletionTimestamp": 1}}
        for each in snapshot.files.values()
    ]
    made = [{name: value} for name, value in actions.items()]
    assert table.commit(snapshot.version + 1, [*removed, *made])


def test_a_forced_rewrite_is_noticed_and_put_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with log_over(tmp_path) as log:
        records = filled(log, 30)
        tabled(log)
        compacted = {
            "path": "part-0.parquet",
            "partitionValues": {},
            "size": 1,
            "modificationTime": 1,
            "dataChange": False,
        }
        forced(log, add=compacted, protocol={"minReaderVersion": 1, "minWriterVersion": 2})

        with caplog.at_level(logging.WARNING, "strandline"):
            tabled(log)

        assert "another program has changed the Delta table" in caplog.text
        assert offsets_of(table_of(log, tmp_path)) == list(range(30))
        assert list(log.read("t", 0, 0)) == records
        with pytest.raises(CommitFailedError, match="strandlineTier"):
            table_of(log, tmp_path).optimize.compact()


def test_an_object_that_was_vacuumed_while_the_log_has_its_records_is_copied_again(
    tmp_path: Path,
) -> None:
    with log_over(tmp_path) as log:
        records = filled(log, 30)
        tabled(log, local_bytes=None)
        forced(log)
        objects_of(log, tmp_path)[1].unlink()

        seen: list[list[int]] = []
        tabled(log, progress=lambda _: seen.append(offsets_of(table_of(log, tmp_path))))

        assert seen[0] == list(range(7))
        assert all(each == list(range(len(each))) for each in seen)  # Without a gap.
        assert offsets_of(table_of(log, tmp_path)) == list(range(30))
        assert log.evict("t", 0, 0) == 30
        assert list(log.read("t", 0, 0)) == records


def test_the_loss_of_an_only_copy_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with log_over(tmp_path) as log:
        filled(log, 30)
        tabled(log)
        forced(log)
        lost = objects_of(log, tmp_path)[1]
        lost.unlink()

        with caplog.at_level(logging.WARNING, "strandline"):
            tabled(log)

        assert lost.name in caplog.text
        assert offsets_of(table_of(log, tmp_path)) == list(range(7))
        with pytest.raises(CorruptError, match="this object is missing"):
            list(log.read("t", 0, 0))
