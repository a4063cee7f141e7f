"""A program that ignores the protocol of a Delta table: what it can do, and the result.

The table is opened to other writers by a commit, and then worked on by delta-rs itself.
"""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

import strandline as sl
from strandline.tiering import compact
from strandline.tiering.delta import checkpoints
from strandline.tiering.delta.transaction_log import TransactionLog, commit_store
from strandline.tiering.routing import topic_folder
from strandline.values import CorruptError
from tests.tiering.delta.tables import log_over, offsets_of, table_of, tabled
from tests.tiering.tiered import LogOver, filled

pytestmark = pytest.mark.slow


def objects_in(folder: Path) -> dict[str, bytes]:
    """Return the objects of the tier, without what other programs have written."""
    found = (folder / "cold").rglob("*-*-*-*.parquet")
    return {each.name: each.read_bytes() for each in found if not each.name.startswith("part-")}


def opened_to_others(log: LogOver, folder: Path) -> DeltaTable:
    """Remove the requirements of the table for writers."""
    table = TransactionLog(commit_store(log.objects), topic_folder(log.topic("t")), "other")
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    assert table.commit(table.snapshot().version + 1, [protocol])
    return table_of(log, folder)


def vacuumed(table: DeltaTable) -> Any:
    return table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def test_a_vacuum_leaves_merged_objects_alone_that_readers_may_hold(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log, 30)
        tabled(log)
        held = table_of(log, tmp_path)
        compact(log, "t", log.objects)
        before = objects_in(tmp_path)
        assert len(before) == 6

        with pytest.raises(CommitFailedError, match="strandlineTier"):
            vacuumed(table_of(log, tmp_path))

        assert objects_in(tmp_path) == before
        assert offsets_of(held) == list(range(30))


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.optimize.compact(),
        lambda table: table.delete("_offset < 12"),
        lambda table: table.delete(),
        lambda table: table.update({"_key": "'x'"}, predicate="_offset = 1"),
        lambda table: table.alter.set_table_properties({"delta.appendOnly": "true"}),
    ],
    ids=["optimize", "delete", "delete all", "update", "properties"],
)
def test_what_delta_rs_changes_by_force_is_reported_and_reverted(
    change: Callable[[DeltaTable], Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with log_over(tmp_path) as log:
        records = filled(log, 30)
        tabled(log)
        before, rows = objects_in(tmp_path), table_of(log, tmp_path).to_pyarrow_table().to_pylist()
        properties = table_of(log, tmp_path).metadata().configuration
        change(opened_to_others(log, tmp_path))
        assert objects_in(tmp_path) == before  # It wrote files of its own, if any.

        with caplog.at_level(logging.WARNING, "strandline"):
            tabled(log)

        assert "another program has changed the Delta table" in caplog.text
        table = table_of(log, tmp_path)
        found = table.to_pyarrow_table().to_pylist()
        assert sorted(found, key=lambda row: row["_offset"]) == rows
        assert table.metadata().configuration == properties
        assert list(log.read("t", 0, 0)) == records
        with pytest.raises(CommitFailedError, match="strandlineTier"):
            table.delete()
        assert tabled(log).copied == 0
        assert table_of(log, tmp_path).version() == table.version()


def test_a_forced_vacuum_is_found_by_verify_and_by_tiering(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with log_over(tmp_path) as log:
        filled(log, 30)
        tabled(log)
        opened_to_others(log, tmp_path).optimize.compact()
        vacuumed(table_of(log, tmp_path))
        assert objects_in(tmp_path) == {}

        with caplog.at_level(logging.WARNING, "strandline"):
            tabled(log)

        assert "is missing or damaged" in caplog.text
        (foreign,) = (tmp_path / "cold").rglob("part-*.parquet")
        assert foreign.name in caplog.text  # The rows are there, for a person.
        (report,) = log.verify("t")
        assert not report.is_sound
        assert "missing" in str(report.findings)
        with pytest.raises(CorruptError, match="this object is missing"):
            list(log.read("t", 0, 0))


def test_a_forced_vacuum_of_what_the_log_still_has_is_made_good(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        records = filled(log, 30)
        tabled(log, local_bytes=None)
        opened_to_others(log, tmp_path).delete()
        vacuumed(table_of(log, tmp_path))
        assert objects_in(tmp_path) == {}

        report = tabled(log, local_bytes=None)

        assert (report.damaged, report.copied) == (5, 5)
        assert offsets_of(table_of(log, tmp_path)) == list(range(30))
        tabled(log)
        assert log.evict("t", 0, 0) == 30
        assert list(log.read("t", 0, 0)) == records


def test_of_a_forced_vacuum_what_the_log_still_has_is_made_good(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with log_over(tmp_path) as log:
        records = filled(log, 10)
        tabled(log)
        for number in range(10, 30):
            log.append("t", sl.Event("k", {"n": number}))
        tabled(log, local_bytes=None)
        kept = objects_in(tmp_path)
        opened_to_others(log, tmp_path).delete()
        vacuumed(table_of(log, tmp_path))
        for name, content in kept.items():  # What was evicted comes back from another place.
            if name.startswith(("0" * 20, f"{7:020d}")):
                restored = tmp_path / "cold" / topic_folder(log.topic("t")) / "0" / name
                restored.write_bytes(content)

        report = tabled(log, local_bytes=None)

        assert (report.damaged, report.copied) == (3, 3)
        assert offsets_of(table_of(log, tmp_path)) == list(range(30))
        assert list(log.read("t", 0, 0))[:10] == records
        assert "is missing or damaged" in caplog.text


def test_rows_that_a_deletion_vector_hides_are_shown_again(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log, 30)
        tabled(log)
        table = TransactionLog(commit_store(log.objects), topic_folder(log.topic("t")), "other")
        snapshot = table.snapshot()
        first = next(iter(snapshot.files.values()))
        vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
        hidden = {**first, "deletionVector": vector}
        assert table.commit(snapshot.version + 1, [{"add": hidden}])

        tabled(log)

        after = table.snapshot()
        assert not any(each.get("deletionVector") for each in after.files.values())
        assert len(after.files) == 5
        commit = log.objects.get(
            f"{topic_folder(log.topic('t'))}/_delta_log/{after.version:020d}.json"
        )
        assert commit is not None
        assert b'"deletionVector":{"storageType":"i"' in commit


def test_a_commit_that_no_one_can_read_is_named_with_what_to_do(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log, 30)
        tabled(log)
        folder = f"{topic_folder(log.topic('t'))}/_delta_log"
        log.objects.put(f"{folder}/{1:020d}.json", b"?")

        with pytest.raises(
            CorruptError, match=r"delete the folder _delta_log.* keep the objects beside it"
        ):
            tabled(log)
        for name in log.objects.list(folder):
            log.objects.delete(name)
        tabled(log)

        assert offsets_of(table_of(log, tmp_path)) == list(range(30))


@pytest.mark.parametrize(
    "line", [b"[]", b'{"add": {"size": 1}}', b'{"add": 1}', b'{"metaData": {"a": 1}}']
)
def test_a_commit_with_other_actions_is_named_with_what_to_do(tmp_path: Path, line: bytes) -> None:
    with log_over(tmp_path) as log:
        filled(log, 30)
        tabled(log)
        log.objects.put(f"{topic_folder(log.topic('t'))}/_delta_log/{1:020d}.json", line)

        with pytest.raises(CorruptError, match="delete the folder _delta_log"):
            tabled(log)


def test_a_damaged_pointer_to_the_checkpoint_is_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with log_over(tmp_path) as log:
        folder = checkpointed(log, tmp_path, monkeypatch)
        (folder / "_last_checkpoint").write_text("?")
        for name in (0, 1, 2):
            (folder / f"{name:020d}.json").unlink()  # As a cleanup does.
        log.append("t", sl.Event("k"))

        tabled(log)

        assert offsets_of(table_of(log, tmp_path)) == list(range(6))


def test_a_damaged_checkpoint_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with log_over(tmp_path) as log:
        folder = checkpointed(log, tmp_path, monkeypatch)
        (checkpoint,) = folder.glob("*.checkpoint.parquet")
        checkpoint.write_bytes(b"?")

        with pytest.raises(CorruptError, match="delete the folder _delta_log") as caught:
            tabled(log)
        assert (caught.value.file or "").endswith(checkpoint.name)
        shutil.rmtree(folder)
        tabled(log)

        assert offsets_of(table_of(log, tmp_path)) == list(range(5))


def checkpointed(log: LogOver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Fill a table until it has a checkpoint, and return the folder of its commits."""
    monkeypatch.setattr(checkpoints, "COMMITS", 3)
    log.create_topic("t")
    for number in range(5):
        log.append("t", sl.Event("k", {"n": number}))
        tabled(log)
    return tmp_path / "cold" / topic_folder(log.topic("t")) / "_delta_log"
