"""Jobs that make something of a topic: folders, snapshots of views, copies."""

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import strandline as sl
from strandline.spark import jobs
from strandline.spark.jobs import published_folder
from strandline.tiering import TieringWorker, open_store
from strandline.tiering import tier as tier_here
from tests.spark.views import Balances, Fragile

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def fill(log: Any, count: int, *, first: int = 0) -> None:
    """Append events of fifty keys, spread over partitions by them."""
    for at in range(first, first + count, 100):
        numbers = range(at, at + 100)
        values = [sl.Event("paid", {"n": n, "amount": n % 7}, key=f"c-{n % 50}") for n in numbers]
        log.append_many("t", values)


def move(log: Any, folder: Path, topic: str = "t") -> None:
    store = open_store(f"file://{folder / 'cold'}")
    tier_here(log, topic, store, include_open=True, local_bytes=0, piece_records=150)


@pytest.fixture
def filled(log: Any, tmp_path: Path) -> Any:
    """A topic of three partitions, two thirds of it cold."""
    log.create_topic("t", partitions=3)
    fill(log, 1000)
    move(log, tmp_path)
    fill(log, 500, first=1000)
    log.append("t", sl.Event("noted", {"n": -1}), partition=0)
    return log


def all_records(log: Any, topic: str = "t") -> list[Any]:
    count = log.describe_topic(topic).settings.partitions
    return [record for p in range(count) for record in log.read(topic, p, 0)]


def rows_of(spark: SparkSession, folder: Path, kind: str = "parquet") -> list[Any]:
    return [row.asDict() for row in spark.read.format(kind).load(f"file://{folder}").collect()]


@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_an_export_holds_every_record_once(
    spark: SparkSession, filled: Any, url: str, tmp_path: Path
) -> None:
    told: list[int] = []
    report = jobs.export(spark, url, "t", tmp_path / "out", progress=told.append)
    assert sum(told) == 1501
    fill(filled, 100, first=5000)

    records = all_records(filled)[:]
    ends = {p: end for p, (_, end) in report.offsets.items()}
    wanted = {
        (r.partition, r.offset): (r.kind, r.key, json.dumps(r.payload, separators=(",", ":")))
        for r in records
        if r.offset < ends[r.partition]
    }
    found = rows_of(spark, tmp_path / "out")
    shown = {(r["_partition"], r["_offset"]): (r["kind"], r["key"], r["payload"]) for r in found}
    assert shown == wanted
    assert len(found) == report.rows == report.records == 1501
    covered = jobs.load_covered(str(tmp_path / "out"))
    assert covered is not None
    assert covered.offsets == dict(report.offsets)
    assert (covered.topic_id, covered.rows) == (filled.topic("t").id, 1501)

    again = jobs.export(spark, url, "t", tmp_path / "out", below=ends)
    assert again.is_repeat
    with pytest.raises(sl.InvalidError, match="something else"):
        jobs.export(spark, url, "t", tmp_path / "out")

    paid = jobs.export(
        spark,
        url,
        "t",
        tmp_path / "paid",
        where="kind = 'paid' AND get_json_object(payload, '$.n')::int < 10",
        file_format="json",
    )
    assert paid.rows == 10
    lines = rows_of(spark, tmp_path / "paid", "json")
    assert sorted(json.loads(row["payload"])["n"] for row in lines) == [*range(10)]
    with pytest.raises(sl.InvalidError, match="where is no condition"):
        jobs.export(spark, url, "t", tmp_path / "bad", where="nothing > 1")
    assert not (tmp_path / "bad").exists()


def check_other_programs_read_the_same_rows(folder: Path, kind: str, rows: int) -> None:
    pattern = str(folder / f"*.{kind}").replace("[", "[[]")
    read = duckdb.read_json if kind == "json" else duckdb.read_parquet
    assert len(read(pattern)) == rows


@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_other_programs_read_an_export(
    spark: SparkSession, log: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create_topic("t")
    fill(log, 100)
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")

    for kind in ("json", "parquet"):
        folder = tmp_path / f"{kind} [1] {{a,b}}"
        options: dict[str, Any] = {"file_format": kind}
        jobs.export(spark, url, "t", folder, **options)
        check_other_programs_read_the_same_rows(folder, kind, 100)
        assert jobs.export(spark, url, "t", folder, **options).is_repeat
        # As earlier versions have left it.
        (folder / "_strandline").rename(folder / "_strandline.json")
        assert jobs.export(spark, url, "t", folder, **options).is_repeat
    (part,) = tmp_path.glob("parquet*/*.parquet")
    columns = {each.name: each.physical_type for each in pq.ParquetFile(part).schema}
    assert columns["_timestamp"] == columns["occurred_at"] == "INT64"
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == before

    monkeypatch.setattr(published_folder, "COVERED_FILE", "_strandline.json")
    jobs.export(spark, url, "t", tmp_path / "planted", file_format="json")
    with pytest.raises(AssertionError):
        check_other_programs_read_the_same_rows(tmp_path / "planted", "json", 100)
    with pytest.raises(sl.UnavailableError, match="DIVIDE_BY_ZERO"):
        jobs.export(spark, url, "t", tmp_path / "failed", where="1 / (_offset - 50) > 0")
    assert not (tmp_path / "failed").exists()


@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_a_snapshot_has_the_latest_record_of_each_key_below_an_offset(
    spark: SparkSession, filled: Any, url: str, tmp_path: Path
) -> None:
    before = all_records(filled)
    below = {0: 300, 1: 200, 2: 250}
    latest: dict[str, Any] = {}
    for record in before:
        if record.offset < below[record.partition] and record.key is not None:
            latest[record.key] = record

    told: list[int] = []
    report = jobs.snapshot(spark, url, "t", tmp_path / "out", below=below, progress=told.append)
    assert sum(told) == report.records == sum(below.values())
    assert min(told) >= 0

    found = rows_of(spark, tmp_path / "out")
    assert {row["key"]: row["_offset"] for row in found} == {
        key: record.offset for key, record in latest.items()
    }
    assert report.rows == len(found) == len(latest)
    assert {p: end for p, (_, end) in report.offsets.items()} == below
    assert all_records(filled) == before, "the topic stays as it is"

    tombstone = "get_json_object(payload, '$.amount')::int = 0"
    kept = jobs.snapshot(spark, url, "t", tmp_path / "kept", below=below, tombstone=tombstone)
    assert kept.rows == sum(record.payload["amount"] != 0 for record in latest.values())
    with pytest.raises(sl.InvalidError, match="does not reach so far"):
        jobs.snapshot(spark, url, "t", tmp_path / "far", below=10_000)


@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_the_latest_record_of_a_typed_topic_comes_with_all_its_rows(
    spark: SparkSession, log: Any, url: str, tmp_path: Path
) -> None:
    scope = log.scope()
    scope.register("typed", SCHEMA)
    for n in range(6):
        rows = {"id": [n, n + 10], "name": [None, "b"]}
        batch = pa.RecordBatch.from_pydict(rows, schema=SCHEMA)
        scope.publish("typed", batch, key=f"k-{n % 2}")
        if n == 3:
            move(log, tmp_path, "typed")

    jobs.snapshot(spark, url, "typed", tmp_path / "out")

    found = [(r["_key"], r["id"], r["name"]) for r in rows_of(spark, tmp_path / "out")]
    assert sorted(found, key=str) == [
        ("k-0", 14, "b"),
        ("k-0", 4, None),
        ("k-1", 15, "b"),
        ("k-1", 5, None),
    ]


def test_a_rebuilt_snapshot_is_the_view_s_own(
    spark: SparkSession, filled: Any, url: str, tmp_path: Path
) -> None:
    own, ours = tmp_path / "own.snapshot", tmp_path / "ours.snapshot"
    filled.trim("t", 1, 40)
    with sl.LiveView(filled, "t", Balances(), snapshot=own) as view:
        view.reconcile(range(3))
        view.rebuild()
        view.wait_ready()
    told: list[int] = []

    report = jobs.rebuild(spark, url, "t", Balances(), ours, progress=told.append)

    assert ours.read_bytes() == own.read_bytes()
    assert report.records == sum(told) == 1501 - 40
    fill(filled, 100, first=2000)
    with sl.LiveView(filled, "t", Balances(), snapshot=ours) as view:
        assert {p: view.committed(p) for p in range(3)} == report.committed
        Balances.applied.clear()
        view.reconcile(range(3))
        view.wait_ready()
        first = {p: min(offsets) for p, offsets in Balances.applied.items()}
        assert first == {p: last + 1 for p, last in report.committed.items()}

    before = ours.read_bytes()
    with pytest.raises(sl.StoppedError) as caught:
        jobs.rebuild(spark, url, "t", Fragile(), ours)
    assert ours.read_bytes() == before
    assert caught.value.offset is not None
    quarantined = jobs.rebuild(spark, url, "t", Fragile(), ours, poison="quarantine")
    assert quarantined.quarantined == 1


def test_tiering_in_parallel_beside_a_worker(
    spark: SparkSession, log: Any, url: str, tmp_path: Path
) -> None:
    log.create_topic("t", partitions=3)
    fill(log, 2000)
    before = all_records(log)
    store = f"file://{tmp_path / 'cold'}"
    options: dict[str, Any] = {"include_open": True, "piece_records": 150, "local_bytes": 0}

    with TieringWorker(log, ["t"], store, interval_s=0.05, **options):
        report = jobs.tier(spark, url, "t", store, **options)

    again = jobs.tier(spark, url, "t", store, **options)
    assert again.done.copied == 0
    assert report.done.damaged == again.done.damaged == 0
    assert all_records(log) == before
    objects = list((tmp_path / "cold").rglob("*.parquet"))
    assert objects
    audited = jobs.audit(spark, url, ["t"])
    assert audited.is_sound, audited.findings
    assert audited.records == 2000
    for partition in range(3):
        run = log.segments("t", partition)[0]
        assert run.location.startswith(store), "evicted"


def test_tiering_copies_each_run_in_a_task_of_its_own(
    spark: SparkSession, log: Any, url: str, tmp_path: Path
) -> None:
    log.create_topic("t", partitions=3)
    fill(log, 900)
    told: list[int] = []

    report = jobs.tier(
        spark,
        url,
        "t",
        f"file://{tmp_path / 'cold'}",
        include_open=True,
        piece_records=100,
        progress=told.append,
    )

    assert report.done.copied_records == sum(told) == 900
    assert report.done.copied == len(list((tmp_path / "cold").rglob("*.parquet"))) >= 9
    assert report.done.evicted_records == 0


def test_objects_are_merged_in_tasks(
    spark: SparkSession, log: Any, url: str, tmp_path: Path
) -> None:
    log.create_topic("t", partitions=3)
    fill(log, 900)
    before = all_records(log)
    store = f"file://{tmp_path / 'cold'}"
    copied = jobs.tier(spark, url, "t", store, include_open=True, piece_records=50, local_bytes=0)

    report = jobs.tier(spark, url, "t", store, compact_bytes=1 << 30, grace_s=0)

    assert report.done.merged == report.done.deleted == copied.done.copied
    assert len(list((tmp_path / "cold").rglob("*.parquet"))) == 3
    assert all_records(log) == before
