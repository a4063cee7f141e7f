"""Jobs that append to topics: each row once, whichever process is killed."""

import json
import os
import signal
import subprocess
import sys
from csv import writer as csv_writer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from pyspark.sql import SparkSession

import strandline as sl
from strandline.io import SystemIo
from strandline.spark import jobs
from strandline.spark.jobs import backfilling
from strandline.testing import FaultyIo
from strandline.testing.faulty_io import OperationKind
from tests.spark.views import Balances

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("url", ["file"], indirect=True)]

ROOT = Path(__file__).parents[2]
ORDERS = pa.schema([("id", pa.int64()), ("shop", pa.string())])


def fill(log: Any, count: int, *, first: int = 0) -> None:
    values = [
        sl.Event("paid" if n % 3 == 0 else "made", {"n": n, "amount": n % 7}, key=f"c-{n % 20}")
        for n in range(first, first + count)
    ]
    log.append_many("orders", values)


def numbers(log: Any, topic: str) -> list[int]:
    count = log.describe_topic(topic).settings.partitions
    return sorted(r.payload["n"] for p in range(count) for r in log.read(topic, p, 0))


def test_a_topic_is_derived_once_and_again_for_what_is_new(
    spark: SparkSession, log: Any, url: str, tmp_path: Path
) -> None:
    log.create_topic("orders", partitions=3)
    log.create_topic("paid", partitions=2)
    fill(log, 600)
    told: list[int] = []
    options: dict[str, Any] = {"checkpoint": tmp_path / "done", "where": "kind = 'paid'"}

    report = jobs.derive(
        spark, url, "orders", "paid", batch_records=250, progress=told.append, **options
    )

    assert numbers(log, "paid") == [*range(0, 600, 3)]
    assert report.rows == sum(told) == 200
    assert report.batches >= 2
    one = next(iter(log.read("paid", log_partition(log), 0)))
    assert (one.kind, one.key) == ("paid", f"c-{one.payload['n'] % 20}")
    fill(log, 90, first=600)
    again = jobs.derive(spark, url, "orders", "paid", **options)
    assert again.rows == 30
    assert numbers(log, "paid") == [*range(0, 690, 3)]
    assert jobs.derive(spark, url, "orders", "paid", **options).rows == 0
    with pytest.raises(sl.InvalidError, match="another where"):
        jobs.derive(spark, url, "orders", "paid", **{**options, "where": "kind = 'made'"})
    assert numbers(log, "paid") == [*range(0, 690, 3)]

    with pytest.raises(sl.InvalidError, match="from another one"):
        jobs.derive(spark, url, "orders", "orders", checkpoint=tmp_path / "other")
    with pytest.raises(sl.InvalidError, match="select is no list"):
        jobs.derive(spark, url, "orders", "paid", checkpoint=tmp_path / "other", select="nothing")


def test_a_topic_that_was_trimmed_is_derived_from_its_oldest_record(
    spark: SparkSession, log: Any, url: str, tmp_path: Path
) -> None:
    log.create_topic("orders")
    log.create_topic("copied")
    fill(log, 50)
    log.trim("orders", 0, 30)
    checkpoint = tmp_path / "done [1] {a,b}"

    jobs.derive(spark, url, "orders", "copied", checkpoint=checkpoint)
    assert numbers(log, "copied") == [*range(30, 50)]
    assert checkpoint.is_dir()
    log.trim("orders", 0, 50)
    fill(log, 5, first=50)
    jobs.derive(spark, url, "orders", "copied", checkpoint=checkpoint)
    assert numbers(log, "copied") == [*range(30, 55)]

    fill(log, 5, first=55)
    log.trim("orders", 0, 58)
    with pytest.raises(sl.UnavailableError, match=r"TrimmedError.* oldest=58 .*offset=55"):
        jobs.derive(spark, url, "orders", "copied", checkpoint=checkpoint)


def log_partition(log: Any) -> int:
    """Return a partition of `paid` with a record."""
    return next(p for p in range(2) if log.marks("paid", p).high)


def test_events_become_rows_of_a_typed_topic(
    spark: SparkSession, log: Any, url: str, tmp_path: Path
) -> None:
    log.create_topic("orders", partitions=3)
    fill(log, 50)
    log.scope().register("rows", ORDERS)
    select = "get_json_object(payload, '$.n')::bigint AS id, kind AS shop, key AS _key"

    jobs.derive(spark, url, "orders", "rows", checkpoint=tmp_path / "done", select=select)
    log.scope().register("copied", ORDERS)
    jobs.derive(spark, url, "rows", "copied", checkpoint=tmp_path / "next", where="id < 10")

    found = [
        (record.key, row["id"])
        for record in log.read("copied", 0, 0)
        for row in record.value.to_pylist()
    ]
    assert sorted(found, key=lambda each: each[1]) == [(f"c-{n}", n) for n in range(10)]


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_files_become_records_once(
    spark: SparkSession, log: Any, url: str, tmp_path: Path, kind: Any
) -> None:
    log.create_topic("orders", partitions=2)
    files = tmp_path / "files"
    files.mkdir()
    write(files / f"one.{kind}", range(100), kind)
    write(files / f"two.{kind}", range(100, 150), kind)
    options: dict[str, Any] = {
        "file_format": kind,
        "schema": "n BIGINT, shop STRING" if kind == "csv" else "",
        "select": "'order' AS kind, shop AS key, to_json(struct(n)) AS payload",
        "checkpoint": tmp_path / "done",
        "batch_files": 1,
    }

    report = jobs.backfill(spark, files, url, "orders", **options)

    assert report.rows == 150
    assert report.batches == 2
    assert numbers(log, "orders") == [*range(150)]
    write(files / f"three.{kind}", range(150, 170), kind)
    assert jobs.backfill(spark, files, url, "orders", **options).rows == 20
    assert numbers(log, "orders") == [*range(170)]
    if kind == "parquet":
        single = {**options, "checkpoint": tmp_path / "single"}
        jobs.backfill(spark, files / "three.parquet", url, "orders", **single)
        assert numbers(log, "orders") == sorted([*range(170), *range(150, 170)])
        with pytest.raises(sl.InvalidError, match="no such files"):
            jobs.backfill(spark, tmp_path / "none", url, "orders", **options)
        fine = pa.table({"at": pa.array([1], pa.timestamp("ns"))})
        parquet.write_table(fine, tmp_path / "nanoseconds.parquet")
        with pytest.raises(sl.InvalidError, match=r"does not read these files.*NANOS"):
            jobs.backfill(spark, tmp_path / "nanoseconds.parquet", url, "orders", **options)


PLAIN = "'order' AS kind, name AS key, to_json(struct(*)) AS payload"


def check_names_are_names(spark: SparkSession, log: Any, url: str, folder: Path) -> None:
    """Backfill from paths in which Spark would see patterns, each with a decoy beside it."""
    log.create_topic("rows")
    files = folder / "in [1] {a,b} ?"
    decoy = folder / "in 1 a x"
    for place, name in ((files, "right"), (decoy, "WRONG"), (files / "zip=7", "partition")):
        place.mkdir(parents=True)
        (place / "a[1].csv").write_text(f"zip,name\n0000007,{name}\n")
        (place / "a1.csv").write_text("zip,name\n8,WRONG\n")
    (files / "zip=7" / "a1.csv").unlink()
    options: dict[str, Any] = {"file_format": "csv", "select": PLAIN}

    jobs.backfill(spark, files / "a[1].csv", url, "rows", checkpoint=folder / "one", **options)
    wanted = [("right", {"zip": "0000007", "name": "right"})]
    assert [(each.key, each.payload) for each in log.read("rows", 0, 0)] == wanted

    (files / "a1.csv").unlink()
    (files / "a[1].csv").unlink()
    (files / "zip=7" / "a[1].csv").write_text("name\npartition\n")
    jobs.backfill(spark, files, url, "rows", checkpoint=folder / "two", **options)
    found = [each.payload for each in log.read("rows", 0, 1)]
    assert found == [{"name": "partition", "zip": 7}]

    (files / "b[1].csv").write_text("zip,name\n9,by pattern\n")
    jobs.backfill(spark, files / "b[1].*", url, "rows", checkpoint=folder / "three", **options)
    assert [each.key for each in log.read("rows", 0, 2)] == ["by pattern"]
    for missing in (files / "b[12].csv", files / "b{[1],2}.csv", files / "x*"):
        with pytest.raises(sl.InvalidError, match="no such files"):
            jobs.backfill(spark, missing, url, "rows", checkpoint=folder / "four", **options)


def test_quoted_texts_in_csv_are_read_as_other_programs_write_them(
    spark: SparkSession, log: Any, url: str, tmp_path: Path
) -> None:
    log.create_topic("rows")
    names = ['a "b", c', "ends with \\", "two\nlines, and\n\na fourth"]
    with (tmp_path / "good.csv").open("w", newline="") as file:
        writing = csv_writer(file)
        writing.writerow(("zip", "name"))
        writing.writerows((number, name) for number, name in enumerate(names))
    options: dict[str, Any] = {"file_format": "csv", "select": PLAIN}

    good = tmp_path / "good.csv"
    jobs.backfill(spark, good, url, "rows", checkpoint=tmp_path / "good", **options)
    assert sorted(each.key for each in log.read("rows", 0, 0)) == sorted(names)


def test_a_file_name_is_no_pattern(spark: SparkSession, log: Any, url: str, tmp_path: Path) -> None:
    check_names_are_names(spark, log, url, tmp_path)


def test_a_file_name_taken_for_a_pattern_is_caught(
    spark: SparkSession, log: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfilling, "literal_path", lambda path: path)

    with pytest.raises((AssertionError, sl.StrandlineError)):
        check_names_are_names(spark, log, url, tmp_path)


def check_no_file_is_skipped(spark: SparkSession, log: Any, url: str, folder: Path) -> None:
    log.create_topic("rows")
    options: dict[str, Any] = {
        "file_format": "csv",
        "select": PLAIN,
        "schema": "zip STRING, name STRING",
    }
    plain = folder / "plain"
    for name in ("1.csv", "2026/2.csv", "2026/01/3.csv", "_hidden/x.csv", ".y.csv"):
        (plain / name).parent.mkdir(parents=True, exist_ok=True)
        (plain / name).write_text(f"zip,name\n7,{name}\n")
    jobs.backfill(spark, plain, url, "rows", checkpoint=folder / "plain-done", **options)
    found = sorted(each.key for each in log.read("rows", 0, 0))
    assert found == ["1.csv", "2026/01/3.csv", "2026/2.csv"]

    mixed = folder / "mixed"
    for name in ("1.csv", "x/2.csv", "zip=7/3.csv", "zip=7/more/4.csv"):
        (mixed / name).parent.mkdir(parents=True, exist_ok=True)
        (mixed / name).write_text(f"name\n{name}\n")
    options["schema"] = ""
    with pytest.raises(sl.InvalidError, match="not both") as caught:
        jobs.backfill(spark, mixed, url, "rows", checkpoint=folder / "mixed-done", **options)
    assert caught.value.fields["files"] == ["1.csv", "x/2.csv"]
    assert log.marks("rows", 0).high == 3

    (mixed / "1.csv").unlink()
    (mixed / "x" / "2.csv").unlink()
    jobs.backfill(spark, f"file://{mixed}", url, "rows", checkpoint=folder / "done", **options)
    assert sorted(each.key for each in log.read("rows", 0, 3)) == [
        "zip=7/3.csv",
        "zip=7/more/4.csv",
    ]


def test_no_file_of_a_folder_is_skipped_silently(
    spark: SparkSession, log: Any, url: str, tmp_path: Path
) -> None:
    check_no_file_is_skipped(spark, log, url, tmp_path)


def test_a_backfill_that_skips_files_is_caught(
    spark: SparkSession, log: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfilling, "_has_columns", lambda *_: True)

    with pytest.raises(AssertionError):
        check_no_file_is_skipped(spark, log, url, tmp_path)


def test_csv_is_text_unless_a_schema_says_otherwise(
    spark: SparkSession, log: Any, url: str, tmp_path: Path
) -> None:
    log.create_topic("rows")
    files = tmp_path / "files"
    files.mkdir()
    (files / "1.csv").write_text("name,zip,at,amount\na,0000007,2026-01-02,1e3\nb,,true,NaN\n")
    options: dict[str, Any] = {"file_format": "csv", "select": PLAIN}

    jobs.backfill(spark, files, url, "rows", checkpoint=tmp_path / "text", **options)
    assert [each.payload for each in log.read("rows", 0, 0)] == [
        {"name": "a", "zip": "0000007", "at": "2026-01-02", "amount": "1e3"},
        {"name": "b", "at": "true", "amount": "NaN"},
    ]

    schema = "name STRING, zip BIGINT, at STRING, amount DOUBLE"
    options["schema"] = schema
    jobs.backfill(spark, files, url, "rows", checkpoint=tmp_path / "typed", **options)
    first = next(iter(log.read("rows", 0, 2))).payload
    assert (first["zip"], first["amount"]) == (7, 1000.0)

    options["schema"] = schema.replace("at STRING", "at BIGINT")
    with pytest.raises(sl.UnavailableError, match="For input string"):
        jobs.backfill(spark, files, url, "rows", checkpoint=tmp_path / "unfit", **options)
    options["schema"] = "name STRING,,"
    with pytest.raises(sl.InvalidError, match="no schema"):
        jobs.backfill(spark, files, url, "rows", checkpoint=tmp_path / "none", **options)
    (files / "2.csv").write_text("zip,name,at,amount\n1,c,x,2\n")
    options["schema"] = ""
    with pytest.raises(sl.UnavailableError, match="header"):
        jobs.backfill(spark, files, url, "rows", checkpoint=tmp_path / "mixed", **options)
    assert "c" not in {each.key for each in log.read("rows", 0, 0)}


def write(path: Path, values: range, kind: str) -> None:
    table = pa.table({"n": list(values), "shop": [f"s-{n % 5}" for n in values]})
    if kind == "parquet":
        parquet.write_table(table, path)
    elif kind == "csv":
        csv.write_csv(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


# --- killed ---

PROGRAM = """
import os, sys
from strandline.spark import jobs, local_session

url, folder, job = sys.argv[1:]
spark = local_session(folder)
spark.sparkContext.setLogLevel("OFF")

def told(count):
    if count:
        print("some", flush=True)
        sys.stdin.readline()

if job == "derive":
    jobs.derive(spark, url, "orders", "paid", checkpoint=f"{folder}/done", where="kind = 'paid'",
                batch_records=100, progress=told)
elif job == "tier":
    jobs.tier(spark, url, "orders", f"file://{folder}/cold", include_open=True, piece_records=10,
              local_bytes=0, progress=told)
elif job == "backfill":
    select = "'order' AS kind, shop AS key, to_json(struct(n)) AS payload"
    jobs.backfill(spark, f"{folder}/files", url, "again", checkpoint=f"{folder}/filled",
                  select=select, batch_files=1, progress=told)
elif job == "rebuild":
    from tests.spark.views import Balances
    jobs.rebuild(spark, url, "orders", Balances(), f"{folder}/view.snapshot", progress=told)
else:
    from strandline.spark.jobs import published_folder
    publish = published_folder.PublishedFolder.publish
    def gated(self, covered):
        told(1)
        publish(self, covered)
    published_folder.PublishedFolder.publish = gated
    jobs.export(spark, url, "orders", f"{folder}/out")
"""


def killed(url: str, folder: Path, job: str) -> None:
    """Run a job until it has done something, and kill it and all its processes."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, url, str(folder), job],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "some\n"
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.heavy
def test_what_a_killed_job_left_is_finished_by_the_next(
    spark: SparkSession, log: Any, url: str, tmp_path: Path
) -> None:
    log.create_topic("orders", partitions=3)
    log.create_topic("paid", partitions=2)
    fill(log, 900)
    log.flush()

    killed(url, tmp_path, "derive")
    jobs.derive(spark, url, "orders", "paid", checkpoint=tmp_path / "done", where="kind = 'paid'")
    assert numbers(log, "paid") == [*range(0, 900, 3)]

    killed(url, tmp_path, "export")
    assert not (tmp_path / "out").exists()
    report = jobs.export(spark, url, "orders", tmp_path / "out")
    assert report.rows == 900
    assert not report.is_repeat
    assert not (tmp_path / "out.partial").exists()

    killed(url, tmp_path, "tier")
    options: dict[str, Any] = {"include_open": True, "piece_records": 10, "local_bytes": 0}
    jobs.tier(spark, url, "orders", f"file://{tmp_path / 'cold'}", **options)
    assert numbers(log, "orders") == [*range(900)]
    audited = jobs.audit(spark, url, ["orders"])
    assert audited.is_sound, audited.findings
    assert audited.records == 900


@pytest.mark.heavy
def test_a_killed_backfill_and_a_killed_rebuild_are_run_again(
    spark: SparkSession, log: Any, url: str, tmp_path: Path
) -> None:
    log.create_topic("orders", partitions=3)
    log.create_topic("again", partitions=2)
    fill(log, 300)
    log.flush()
    (tmp_path / "files").mkdir()
    # Many small ones: the job continues until it is killed, which takes a while on a busy machine.
    for part in range(30):
        write(tmp_path / "files" / f"{part}.parquet", range(part * 10, part * 10 + 10), "parquet")

    killed(url, tmp_path, "backfill")
    already = len(numbers(log, "again"))
    select = "'order' AS kind, shop AS key, to_json(struct(n)) AS payload"
    rest = jobs.backfill(
        spark, tmp_path / "files", url, "again", checkpoint=tmp_path / "filled", select=select
    )
    assert 10 <= already < 300
    assert rest.rows <= 300 - already + 10, "what was taken is not taken again"
    assert numbers(log, "again") == [*range(300)]

    killed(url, tmp_path, "rebuild")
    ours, own = tmp_path / "view.snapshot", tmp_path / "own.snapshot"
    assert not ours.exists()
    jobs.rebuild(spark, url, "orders", Balances(), ours)
    jobs.rebuild(spark, url, "orders", Balances(), own)
    assert ours.read_bytes() == own.read_bytes()


class KilledError(BaseException):
    """Stands for the death of the process."""


CHANGES: tuple[OperationKind, ...] = (
    "open",
    "pwrite",
    "sync",
    "replace",
    "sync_directory",
    "unlink",
)


def test_a_snapshot_or_rebuild_that_crashes_at_any_change_of_a_file_is_run_again(
    spark: SparkSession, log: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create_topic("orders", partitions=3)
    fill(log, 120)

    def snapshot(name: str) -> Any:
        jobs.snapshot(spark, url, "orders", tmp_path / name)
        shown = spark.read.parquet(f"file://{tmp_path / name}").orderBy("key").collect()
        return shown, jobs.load_covered(str(tmp_path / name))

    def rebuild(name: str) -> Any:
        jobs.rebuild(spark, url, "orders", Balances(), tmp_path / f"{name}.snapshot")
        return (tmp_path / f"{name}.snapshot").read_bytes()

    for job, module in ((snapshot, "published_folder"), (rebuild, "rebuilding")):
        io = FaultyIo(SystemIo())
        monkeypatch.setattr(f"strandline.spark.jobs.{module}.SystemIo", lambda io=io: io)
        undisturbed = job(f"whole-{module}")
        steps = io.count(*CHANGES)
        assert steps >= 4
        # Until the last three, Spark's own files are what would be there.
        for step in range(steps - 2, steps + 1):
            name = f"{module}-{step}"
            io.clear_faults()
            io.fail(nth=step, kinds=CHANGES, error=KilledError())
            with pytest.raises(KilledError):
                job(name)
            io.clear_faults()
            assert job(name) == undisturbed, step
    left = [path.name for path in tmp_path.iterdir() if path.name.endswith(".partial")]
    assert left == []
