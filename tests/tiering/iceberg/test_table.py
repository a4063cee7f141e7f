"""The Iceberg table of a topic holds what its tier holds, each record once, for every reader."""

import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform

import strandline as sl
from strandline.testing import FakeClock
from strandline.tiering import compact, sweep, tier
from strandline.tiering.iceberg import publishing, rest_catalogue
from strandline.tiering.routing import topic_folder
from strandline.values import InvalidError, UnavailableError, ValueKind
from tests.tiering.delta.tables import log_over, stored_rows
from tests.tiering.faulty_store import MemoryObjects
from tests.tiering.iceberg.tables import (
    NAME,
    SteeredCatalog,
    by_each_reader,
    catalogue_of,
    objects_in,
    offsets_of,
    table_of,
    tabled,
)
from tests.tiering.test_reads import VALUES
from tests.tiering.tiered import filled, opened

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", [ValueKind.EVENT, ValueKind.BYTES])
def test_every_reader_has_the_rows_of_the_log(tmp_path: Path, kind: ValueKind) -> None:
    with log_over(tmp_path, "file") as log:
        log.create_topic("t", partitions=2, value_kind=kind)
        for number in range(40):
            log.append("t", VALUES[kind](number), partition=number % 2)
        tabled(log)

        expected = stored_rows(log)
        for name, rows in by_each_reader(table_of()).items():
            assert [sorted(row.items(), key=str) for row in rows] == [
                sorted(row.items(), key=str) for row in expected
            ], name


def test_objects_in_a_folder_with_a_strange_name_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "größe 100% (1)"
    folder.mkdir()
    with log_over(folder) as log:
        filled(log, 20)
        tabled(log)

        assert offsets_of(table_of()) == list(range(20))


@pytest.mark.parametrize("spelling", ["file://{}/", "FILE:///.{}", "file:{}//", "file://{}%2F."])
def test_tables_have_the_objects_of_each_spelling_of_a_url(tmp_path: Path, spelling: str) -> None:
    urls = [f"file://{tmp_path}/cold", spelling.format(f"{tmp_path}/cold")]
    with log_over(tmp_path) as log:
        log.create_topic("t")
        for url in (urls[0], urls[1], urls[0], urls[1]):
            log.append("t", sl.Event("k", {}))
            tier(log, "t", url, include_open=True, delta=True, iceberg=NAME)

        assert offsets_of(table_of()) == [0, 1, 2, 3]
        assert len(table_of().snapshots()) == 4
        (folder,) = (tmp_path / "cold" / "-global").glob("t-*")
        offsets = DeltaTable(folder).to_pyarrow_table()["_offset"].to_pylist()
        assert sorted(offsets) == [0, 1, 2, 3]
        tier(log, "t", urls[1], local_bytes=0, compact_bytes=2**20)
        assert offsets_of(table_of()) == [0, 1, 2, 3]


@pytest.mark.parametrize("prefix", ["a%20b", "a b/", "1%25%2B+ü"])
def test_objects_in_a_bucket_are_found(
    tmp_path: Path, bucket: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, variable in {
        "ENDPOINT": "AWS_ENDPOINT_URL",
        "ACCESS_KEY_ID": "AWS_ACCESS_KEY_ID",
        "SECRET_ACCESS_KEY": "AWS_SECRET_ACCESS_KEY",
        "REGION": "AWS_REGION",
    }.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__S3__{name}", os.environ[variable])
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        log.create_topic("t")
        for start in ("s3", "S3"):
            log.append("t", sl.Event("k", {}))
            url = f"{start}{bucket.removeprefix('s3')}/{prefix}"
            tier(log, "t", url, include_open=True, local_bytes=0, iceberg=NAME)

        assert offsets_of(table_of()) == [0, 1]
        assert [record.offset for record in log.read("t", 0, 0)] == [0, 1]


def test_readers_skip_objects_by_offset(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log, 30)
        tabled(log)

        found = list(table_of().scan(row_filter="_offset >= 21").plan_files())

        assert len(found) == 2


# --- following the tier ---


def test_later_runs_and_compaction_update_the_table_without_being_asked(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log, 30)
        tabled(log)
        log.append_many("t", [sl.Event("k", {"n": n}) for n in range(10)])
        tabled(log, iceberg=None)
        assert offsets_of(table_of()) == list(range(40))

        compact(log, "t", log.objects, grace_s=0)

        table = table_of()
        assert offsets_of(table) == list(range(40))
        assert len(list(table.scan().plan_files())) == len(objects_in(tmp_path)) < 6


def test_what_retention_deletes_has_left_the_table_before(tmp_path: Path) -> None:
    seen: list[list[int]] = []
    with log_over(tmp_path) as log:
        filled(log, 30)
        tabled(log)
        before = objects_in(tmp_path)
        SteeredCatalog.after = lambda: seen.append([len(objects_in(tmp_path))])

        log.trim("t", 0, 20, force=True)

        assert seen == [[len(before)]], "one commit, before the first deletion"
        assert len(objects_in(tmp_path)) == 3
        assert offsets_of(table_of()) == list(range(14, 30))


def test_without_the_catalogue_nothing_is_deleted_and_the_next_run_does_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with log_over(tmp_path) as log:
        filled(log, 30)
        tabled(log)
        before = objects_in(tmp_path)
        with monkeypatch.context() as patch:
            patch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/not/there.db")
            log.trim("t", 0, 20, force=True)
            with pytest.raises(UnavailableError, match="catalogue of Iceberg tables"):
                tabled(log, iceberg=None)
            assert objects_in(tmp_path) == before

        tabled(log, iceberg=None)

        assert len(objects_in(tmp_path)) == 3
        assert offsets_of(table_of()) == list(range(14, 30))


def test_erased_records_are_tombstones_in_the_table(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log, 20)
        tabled(log)

        log.erase("t", key="k1")

        rows = by_each_reader(table_of())["pyiceberg"]
        assert [row["_offset"] for row in rows] == list(range(20))
        assert {row["_key"] for row in rows} == {"k0", "k2", None}


@pytest.mark.parametrize("kind", [ValueKind.EVENT, ValueKind.BYTES])
def test_no_version_of_the_table_has_the_texts_of_erased_records(
    tmp_path: Path, kind: ValueKind
) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t", value_kind=kind)
        if kind is ValueKind.EVENT:
            event = sl.Event("k", {"name": "Mallory"}, key="Mallory", headers={"a": "Mallory"})
            log.append("t", event)
        else:
            log.append("t", b"Mallory", key="Mallory")
        tabled(log)

        log.erase("t", key="Mallory")

        table = table_of()
        entries = [
            entry
            for version in table.snapshots()
            for manifest in version.manifests(table.io)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        ]
        assert entries
        assert all(2 in each.data_file.lower_bounds for each in entries)  # _offset
        assert b"Mallory" not in str(entries).encode()


def test_a_dropped_topic_leaves_no_table(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log, 20)
        tabled(log)

        log.drop_topic("t")
        sweep(log, log.objects)

        with pytest.raises(NoSuchTableError):
            table_of()
        assert [each for each in (tmp_path / "cold").rglob("*") if each.is_file()] == []


def test_a_sweep_goes_on_while_a_dropped_topic_cannot_leave_its_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalogue that was given up would else keep what crashes leave of every topic."""
    with log_over(tmp_path) as log:
        filled(log, 20)
        tabled(log)
        filled(log, 20, topic="u")
        tabled_objects = objects_in(tmp_path)
        log.objects.put(f"{topic_folder(log.topic('u'))}/0/{0:020}-{7:020}-0.parquet", b"torn")

        with monkeypatch.context() as patch:
            patch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/not/there.db")
            log.drop_topic("t")
            with pytest.raises(UnavailableError, match="catalogue of Iceberg tables"):
                sweep(log, log.objects)
            left = objects_in(tmp_path)
        sweep(log, log.objects)

        assert left == tabled_objects
        assert not objects_in(tmp_path)


def test_the_versions_of_a_table_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "VERSIONS_MAX", 5)
    clock = FakeClock()
    clock.advance(4_000_000_000.0)
    with log_over(tmp_path) as log:
        filled(log, 5)
        for _ in range(12):
            log.append("t", sl.Event("k", {}))
            tabled(log, piece_records=1000, local_bytes=None, clock=clock)

        assert len(table_of().snapshots()) <= 6
        assert offsets_of(table_of()) == list(range(17))


# --- others ---


@pytest.mark.parametrize("change", ["delete", "append", "empty"])
def test_what_another_program_changes_is_said_and_put_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    with log_over(tmp_path) as log:
        records = filled(log, 30)
        tabled(log)
        before, table = objects_in(tmp_path), table_of()
        rows = by_each_reader(table)["pyiceberg"]
        if change == "append":
            table.append(table.scan(row_filter="_offset = 3").to_arrow())
        else:
            table.delete("_offset < 12" if change == "delete" else "_offset >= 0")

        with caplog.at_level(logging.WARNING, "strandline"):
            tabled(log)

        assert "another program has changed the Iceberg table" in caplog.text
        assert by_each_reader(table_of())["pyiceberg"] == rows
        assert objects_in(tmp_path) == before
        assert list(log.read("t", 0, 0)) == records


def rename(table: Table) -> None:
    with table.update_schema() as schema:
        schema.rename_column("_key", "kind2")


def remove(table: Table) -> None:
    with table.update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column("kind")


def exchange(table: Table) -> None:
    for old, new in (("kind", "other"), ("_key", "kind"), ("other", "_key")):
        with table.update_schema() as schema:
            schema.rename_column(old, new)


def partition(table: Table) -> None:
    with table.update_spec() as spec:
        spec.add_field("_offset", BucketTransform(4))


def forget_names(table: Table) -> None:
    with table.transaction() as commit:
        commit.remove_properties("schema.name-mapping.default")


@pytest.mark.parametrize("change", [rename, remove, exchange, partition, forget_names])
def test_columns_and_partitions_that_another_program_changes_are_put_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Callable[[Table], None]
) -> None:
    with log_over(tmp_path) as log:
        filled(log, 30)
        tabled(log)
        before = table_of()
        rows = by_each_reader(before)["pyiceberg"]
        change(before)

        with caplog.at_level(logging.WARNING, "strandline"):
            tabled(log)

        assert "another program has changed the Iceberg table" in caplog.text
        assert by_each_reader(table_of())["pyiceberg"] == rows
        caplog.clear()
        log.append("t", sl.Event("k", {}))
        tabled(log)
        assert not caplog.records
        assert offsets_of(table_of()) == list(range(31))
        assert sorted(table_of().schema().column_names) == sorted(rows[0])


def test_properties_that_another_program_changes_are_put_back(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log, 5)
        tabled(log)
        with table_of().transaction() as commit:
            commit.set_properties({"gc.enabled": "true"})

        tabled(log)

        assert table_of().properties["gc.enabled"] == "false"


def test_a_lost_table_is_made_again(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log, 20)
        tabled(log)
        catalogue_of().drop_table("events.t")
        tabled(log, iceberg=None)
        with pytest.raises(NoSuchTableError):
            table_of()

        tabled(log)

        assert offsets_of(table_of()) == list(range(20))


def test_a_table_of_others_is_left_alone(tmp_path: Path) -> None:
    lake = catalogue_of()
    lake.create_namespace("events")
    theirs = lake.create_table("events.t", pa.schema([("a", pa.int64())]))
    with log_over(tmp_path) as log:
        filled(log, 20)

        with pytest.raises(InvalidError, match=r"not of this topic.*lake\.events\.t"):
            tabled(log)

        assert objects_in(tmp_path) == set()
        theirs.refresh()
        assert theirs.current_snapshot() is None


def test_a_second_name_is_refused_until_the_first_table_is_dropped(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log, 20)
        tabled(log)

        with pytest.raises(InvalidError, match=r"another Iceberg table already.*lake\.events\.t"):
            tabled(log, iceberg="lake.events.other")

        catalogue_of().drop_table("events.t")
        tabled(log, iceberg="lake.events.other")
        assert offsets_of(table_of("lake.events.other")) == list(range(20))


@pytest.mark.parametrize("name", ["", "t", "lake.t", "lake..t", "lake.events.", ".events.t"])
def test_a_name_needs_catalogue_namespace_and_table(tmp_path: Path, name: str) -> None:
    with log_over(tmp_path) as log:
        filled(log, 5)

        with pytest.raises(InvalidError, match="iceberg"):
            tabled(log, iceberg=name)


def test_a_catalogue_that_is_not_configured_is_named(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log, 5)

        with pytest.raises(InvalidError, match="PYICEBERG_CATALOG__OCEAN__URI"):
            tabled(log, iceberg="ocean.events.t")

        assert objects_in(tmp_path) == set()


@pytest.mark.parametrize("kind", [None, "rest"])
def test_a_catalogue_that_does_not_answer_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str | None
) -> None:
    monkeypatch.setattr(rest_catalogue, "ANSWER_TIMEOUT_S", 0.1)
    monkeypatch.delenv("PYICEBERG_CATALOG__LAKE__PY_CATALOG_IMPL")
    if kind is not None:
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", kind)
    with socket.create_server(("127.0.0.1", 0)) as silent, log_over(tmp_path) as log:
        port = silent.getsockname()[1]
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"http://127.0.0.1:{port}")
        filled(log, 5)

        with pytest.raises(UnavailableError, match=r"did not answer.*timed out"):
            tabled(log)

        assert log.evict("t", 0, 0) == 0


def test_a_run_asks_once_which_tables_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    with log_over(tmp_path) as log:
        filled(log, 20)
        tabled(log, local_bytes=None)
        log.append("t", sl.Event("k", {}))
        get = log.objects.get

        def counted(name: str) -> bytes | None:
            asked.append(name)
            return get(name)

        monkeypatch.setattr(log.objects, "get", counted)
        tabled(log, iceberg=None)

        assert sum(name.endswith("_iceberg.json") for name in asked) == 1
        assert offsets_of(table_of()) == list(range(21))


def test_objects_in_memory_have_no_table(tmp_path: Path) -> None:
    with opened("memory", tmp_path, MemoryObjects()) as log:
        filled(log, 5)

        with pytest.raises(InvalidError, match="objects that other programs can open"):
            tier(log, "t", log.objects, iceberg=NAME, include_open=True)
