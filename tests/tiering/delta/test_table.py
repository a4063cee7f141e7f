"""The Delta table of a topic holds what its tier holds, each record once, for every reader."""

import contextlib
import datetime as dt
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

import strandline as sl
from strandline.tiering import sweep
from strandline.tiering.delta import checkpoints, has_table
from strandline.tiering.delta.transaction_log import TransactionLog
from strandline.tiering.routing import topic_folder
from strandline.values import InvalidError, UnavailableError, ValueKind
from tests.tiering.delta.tables import (
    by_each_reader,
    dumped,
    log_over,
    objects_of,
    offsets_of,
    stored_rows,
    table_of,
    tabled,
)
from tests.tiering.faulty_store import CrashError, FaultyObjects
from tests.tiering.test_reads import VALUES
from tests.tiering.tiered import LogOver, filled, opened

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", [ValueKind.EVENT, ValueKind.BYTES])
def test_every_reader_has_the_rows_of_the_log(tmp_path: Path, kind: ValueKind) -> None:
    with log_over(tmp_path, "file") as log:
        log.create_topic("t", partitions=2, value_kind=kind)
        for number in range(40):
            log.append("t", VALUES[kind](number), partition=number % 2)
        tabled(log)

        expected = stored_rows(log)
        for name, rows in by_each_reader(table_of(log, tmp_path)).items():
            assert [_sorted(row) for row in rows] == [_sorted(row) for row in expected], name


TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "small": (pa.int8(), [1, None, -3]),
    "counted": (pa.uint32(), [2**32 - 1, None, 0]),
    "price": (pa.decimal128(12, 2), [Decimal("1.50"), None, Decimal("-2.25")]),
    "day": (pa.date32(), [dt.date(2026, 1, 1), None, dt.date(1999, 12, 31)]),
    "at": (pa.timestamp("us", "UTC"), [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None, None]),
    "ok": (pa.bool_(), [True, None, False]),
    "ratio": (pa.float64(), [0.5, None, -1.0]),
    "raw": (pa.binary(), [b"\x00\xff", None, b""]),
    "tags": (pa.list_(pa.string()), [["a", None], None, []]),
    "place": (pa.struct([("lat", pa.float64()), ("name", pa.string())]), [{"lat": 1.0}, None, {}]),
}


def test_typed_columns_keep_their_values(tmp_path: Path) -> None:
    schema = pa.schema([(name, kind) for name, (kind, _) in TYPES.items()])
    with log_over(tmp_path) as log:
        log.scope().register("t", schema)
        columns = [pa.array(values, kind) for kind, values in TYPES.values()]
        log.append("t", pa.RecordBatch.from_arrays(columns, schema=schema))
        tabled(log)

        expected = stored_rows(log)
        for name, rows in by_each_reader(table_of(log, tmp_path)).items():
            for row, wanted in zip(rows, expected, strict=True):
                for column in schema.names:
                    assert row[column] == wanted[column], (name, column)


def test_a_new_version_of_the_schema_is_in_the_table(tmp_path: Path) -> None:
    first = pa.schema([("n", pa.int32())])
    second = pa.schema([("n", pa.int64()), ("late", pa.string())])
    with log_over(tmp_path) as log:
        log.scope().register("t", first)
        log.append("t", pa.record_batch([pa.array([1, 2], pa.int32())], schema=first))
        tabled(log)
        log.scope().evolve("t", second)
        log.append("t", pa.record_batch([[2**40], ["x"]], schema=second))
        tabled(log)

        table = table_of(log, tmp_path)
        kinds = {field.name: str(field.type) for field in table.schema().fields}
        rows = by_each_reader(table)

        assert "long" in kinds["n"]
        assert "string" in kinds["late"]
        for found in rows.values():
            assert [(row["n"], row["late"]) for row in found] == [
                *((1, None), (2, None), (2**40, "x")),
            ]


def test_columns_of_older_objects_stay_in_the_table(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t", value_kind="batch")
        log.append("t", pa.record_batch({"old": [1]}))
        tabled(log)
        log.append("t", pa.record_batch({"new": ["x"]}))
        tabled(log)

        rows = by_each_reader(table_of(log, tmp_path))

        for found in rows.values():
            assert [(row["old"], row["new"]) for row in found] == [(1, None), (None, "x")]


def test_no_record_is_skipped_by_the_statistics_of_its_time(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        records = filled(log, 20)
        tabled(log)
        table = table_of(log, tmp_path)

        files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        for record in records:
            (file,) = (
                each
                for each in files
                if each["min._offset"] <= record.offset <= each["max._offset"]
            )
            assert file["min._timestamp"] <= record.timestamp <= file["max._timestamp"]
            rows = table.to_pyarrow_dataset().to_table(
                columns=["_offset"], filter=ds.field("_timestamp") == record.timestamp
            )
            assert record.offset in rows.column("_offset").to_pylist()


def test_the_last_moment_of_all_has_a_place_in_the_table(tmp_path: Path) -> None:
    end = dt.datetime.max.replace(tzinfo=dt.UTC)
    with log_over(tmp_path) as log:
        log.create_topic("t")
        log.append("t", sl.Event("k", {}, occurred_at=end))
        tabled(log)

        rows = table_of(log, tmp_path).to_pyarrow_dataset().to_table(columns=["occurred_at"])
        assert rows.column("occurred_at").to_pylist() == [end]


def test_a_commit_says_which_offsets_the_table_has_and_of_which_epoch(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log, 20)
        tabled(log)

        table = table_of(log, tmp_path)
        about = msgspec.json.decode(table.history()[0]["userMetadata"])
        actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()

        assert about["partitions"] == {"0": {"start": 0, "end": 20, "epoch": 0}}
        assert about["topic_id"] == str(log.topic("t").id)
        assert about["log_id"] == str(log.id)
        spans = sorted((each["min._offset"], each["max._offset"]) for each in actions)
        assert spans == [(0, 6), (7, 13), (14, 19)]
        assert {each["min._topic"] for each in actions} == {"t"}
        assert all(each["max._timestamp"] >= each["min._timestamp"] for each in actions)
        application = f"strandline-{log.topic('t').id}"
        assert table.transaction_version(application) is not None


def test_files_are_skipped_by_their_statistics(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log, 20)
        tabled(log)
        table = table_of(log, tmp_path)

        found = table.to_pyarrow_dataset().get_fragments(filter=ds.field("_offset") == 3)

        assert len(list(found)) == 1


def test_a_run_that_changes_nothing_commits_nothing(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log)
        tabled(log)
        tabled(log)
        tabled(log, delta=False)

        assert table_of(log, tmp_path).version() == 0


def test_without_delta_there_is_no_table(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log)
        tabled(log, delta=False)

        assert not has_table(log.objects, log.topic("t"))


def test_what_was_copied_before_becomes_part_of_the_table(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log)
        tabled(log, delta=False)
        tabled(log)

        assert offsets_of(table_of(log, tmp_path)) == list(range(20))


class Watching(FaultyObjects):
    """Notes what the table still has when an object is deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.log: LogOver | None = None
        self.still_listed: list[str] = []
        self.deleted = 0

    def delete(self, name: str) -> None:
        if self.log is not None and name.endswith(".parquet"):
            self.deleted += 1
            if name in _listed(self.log, self):
                self.still_listed.append(name)
        super().delete(name)


def test_what_retention_deletes_has_left_the_table_before(tmp_path: Path) -> None:
    objects = Watching()
    with opened("memory", tmp_path, objects) as log:
        filled(log, 30)
        tabled(log)
        objects.log = log

        log.trim("t", 0, 20)

        assert objects.deleted == 2
        assert objects.still_listed == []
        table = DeltaTable(dumped(objects, tmp_path / "cold") / topic_folder(log.topic("t")))
        assert offsets_of(table) == list(range(14, 30))
        assert table.history()[0]["operation"] == "DELETE"


def test_what_is_evicted_is_in_the_table_before(tmp_path: Path) -> None:
    objects = FaultyObjects()
    with opened("memory", tmp_path, objects) as log:
        filled(log)
        objects.error = lambda: UnavailableError("away")
        objects.fail_at = _call_number(tmp_path, "put_new")

        with pytest.raises(UnavailableError):
            tabled(log)

        assert log.evict("t", 0, 0) == 0
        tabled(log)
        assert log.evict("t", 0, 0) == 20


def _call_number(folder: Path, name: str) -> int:
    objects = FaultyObjects()
    with opened("memory", folder, objects) as log:
        filled(log)
        tabled(log)
    return objects.calls.index(name) + 1


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("error", [lambda: UnavailableError("away"), CrashError])
def test_a_fault_at_any_call_neither_doubles_nor_skips_a_record(
    tmp_path: Path, error: Callable[[], Exception], *, is_after: bool
) -> None:
    number = 0
    while True:
        number += 1
        objects = FaultyObjects()
        with opened("memory", tmp_path, objects) as log:
            filled(log, 30)
            tabled(log, include_open=False)
            for each in range(10):
                log.append("t", sl.Event("k", {"n": each}))
            log.trim("t", 0, 10)
            objects.calls.clear()
            objects.fail_at, objects.is_after, objects.error = number, is_after, error

            with contextlib.suppress(UnavailableError, CrashError):
                tabled(log)
            if number > len(objects.calls):
                assert number > 10
                return
            tabled(log)

            table = DeltaTable(dumped(objects, tmp_path / "cold") / topic_folder(log.topic("t")))
            assert offsets_of(table) == list(range(7, 40)), number


def test_two_that_commit_at_once_both_get_their_files_in_once(tmp_path: Path) -> None:
    class Overtaken(FaultyObjects):
        """Has another process tier just before a commit."""

        other: Callable[[], Any] | None = None

        def put_new(self, name: str, content: bytes) -> bool:
            other, self.other = self.other, None
            if other is not None:
                other()
            return super().put_new(name, content)

    objects = Overtaken()
    with opened("memory", tmp_path, objects) as log:
        filled(log)
        tabled(log)

        def other() -> None:
            log.append_many("t", [sl.Event("k", {"n": n}) for n in range(7)])
            log.trim("t", 0, 7)
            tabled(log)

        log.append_many("t", [sl.Event("k", {"n": n}) for n in range(7)])
        objects.other = other
        tabled(log)

        table = DeltaTable(dumped(objects, tmp_path / "cold") / topic_folder(log.topic("t")))
        assert offsets_of(table) == list(range(7, 34))
        assert table.version() == 2


def test_a_lost_table_is_made_again_from_the_catalogue(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log, 30)
        tabled(log)
        log.trim("t", 0, 9)
        for name in log.objects.list(f"{topic_folder(log.topic('t'))}/_delta_log"):
            log.objects.delete(name)

        tabled(log)

        table = table_of(log, tmp_path)
        assert table.version() == 0
        assert offsets_of(table) == list(range(7, 30))


def test_a_table_continues_from_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "COMMITS", 3)
    with log_over(tmp_path) as log:
        filled(log, 5)
        for number in range(8):
            log.append("t", sl.Event("k", {"n": number}))
            tabled(log)
        commits = sorted((tmp_path / "cold").rglob("_delta_log/*.json"))
        assert len(list((tmp_path / "cold").rglob("*.checkpoint.parquet"))) == 2
        for path in commits[:5]:
            path.unlink()  # As a cleanup does.
        log.append("t", sl.Event("k"))
        tabled(log)

        assert table_of(log, tmp_path).version() == 8
        assert offsets_of(table_of(log, tmp_path)) == list(range(14))


def test_a_dropped_topic_leaves_nothing(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log)
        tabled(log)
        log.drop_topic("t")

        assert log.objects.list("") == []


def test_sweeping_leaves_a_table_and_foreign_files_alone(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log)
        tabled(log)
        folder = topic_folder(log.topic("t"))
        log.objects.put(f"{folder}/part-0.parquet", b"theirs")

        assert sweep(log, log.objects) == 0
        assert offsets_of(table_of(log, tmp_path)) == list(range(20))
        assert log.objects.get(f"{folder}/part-0.parquet") == b"theirs"


def test_topics_of_one_name_have_a_table_each(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log)
        log.create_topic("t", tenant="acme")
        own = log.topic("t", tenant="acme")
        log.append(own, sl.Event("k"))
        tabled(log)
        tabled(log, own)  # type: ignore[arg-type]
        first = topic_folder(log.topic("t"))

        assert all(quote(name) == name for name in log.objects.list(""))  # As Spark takes them.
        assert topic_folder(own).startswith("acme/t-")
        assert first.startswith("-global/t-")
        assert offsets_of(DeltaTable(tmp_path / "cold" / topic_folder(own))) == [0]
        assert offsets_of(table_of(log, tmp_path)) == list(range(20))


def test_a_missing_deltalake_is_named_before_anything_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with log_over(tmp_path) as log:
        filled(log)
        monkeypatch.setitem(sys.modules, "deltalake", None)

        with pytest.raises(InvalidError, match="extra delta"):
            tabled(log)

        assert log.objects.list("") == []


def test_a_store_that_cannot_commit_is_refused(tmp_path: Path) -> None:
    class Plain(FaultyObjects):
        put_new = None  # type: ignore[assignment]

    with opened("memory", tmp_path, Plain()) as log:
        filled(log)

        with pytest.raises(InvalidError, match="put_new"):
            tabled(log)


def test_polars_skips_files_of_otheroffsets_of(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log, 20)
        tabled(log)
        for path in objects_of(log, tmp_path)[1:]:
            path.unlink()

        found = pl.scan_delta(table_of(log, tmp_path)).filter(pl.col("_offset") < 5)

        assert found.select("_offset").collect()["_offset"].to_list() == list(range(5))


def _listed(log: LogOver, objects: FaultyObjects) -> set[str]:
    folder = topic_folder(log.topic("t"))
    return {f"{folder}/{path}" for path in TransactionLog(objects, folder, "").snapshot().files}


def _sorted(row: Any) -> list[tuple[str, Any]]:
    return sorted(row.items())


def test_what_is_erased_is_gone_from_the_table_and_every_offset_is_there(tmp_path: Path) -> None:
    with log_over(tmp_path, "file") as log:
        filled(log)
        tabled(log)

        log.erase("t", key="k1")

        table = table_of(log, tmp_path)
        assert offsets_of(table) == list(range(20))
        for name, rows in by_each_reader(table).items():
            assert rows == stored_rows(log), name
            assert sum(row["kind"] == "strandline.erased" for row in rows) == 7, name
        there = {path.relative_to(tmp_path / "cold") for path in objects_of(log, tmp_path)}
        kept = {
            path.relative_to(tmp_path / "cold") for path in (tmp_path / "cold").rglob("*.parquet")
        }
        assert kept == there
