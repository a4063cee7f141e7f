"""`jobs.audit` finds everything that `verify` finds, and names it."""

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

import strandline as sl
from strandline.spark import jobs
from strandline.spark.jobs import auditing
from strandline.spark.jobs.auditing import AuditReport
from strandline.tiering import open_store, tier

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def fill(log: Any, count: int, topic: str = "t", *, partitions: int = 3) -> None:
    """Append events to each partition, in appends of a hundred."""
    for partition in range(partitions):
        for at in range(0, count, 100):
            values = [sl.Event("k", {"n": n}, key=f"c-{n % 17}") for n in range(at, at + 100)]
            log.append_many(topic, values, partition=partition)


def move(log: Any, folder: Path, topic: str = "t", **options: Any) -> None:
    """Copy everything to the tier in several objects, and evict it."""
    store = open_store(f"file://{folder / 'cold'}")
    chosen = {"local_bytes": 0, "piece_records": 150, **options}
    tier(log, topic, store, include_open=True, **chosen)


def objects(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "cold").rglob("*.parquet"))


def shown(report: AuditReport) -> list[tuple[int, int, str]]:
    return [(each.partition, each.offset, each.reason) for each in report.findings]


def by_verify(log: Any, topic: str = "t") -> list[tuple[int, int, str]]:
    return [
        (each.partition, finding.offset, finding.reason)
        for each in log.verify(topic)
        for finding in each.findings
    ]


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut partitions into many stretches, so that borders lie everywhere."""
    monkeypatch.setattr(auditing, "SPLIT_BYTES", 1)
    cut = auditing.plan
    monkeypatch.setattr(auditing, "plan", lambda *args: cut(*args, records_max=70))


@pytest.mark.usefixtures("small_tasks")
def test_everything_is_read_once_hot_and_cold(
    spark: SparkSession, log: Any, url: str, tmp_path: Path
) -> None:
    log.create_topic("t", partitions=3)
    log.create_topic("proved", partitions=3, proof=True)
    log.scope().register("typed", SCHEMA)
    for topic in ("t", "proved"):
        fill(log, 400, topic)
    for n in range(5):
        rows = pa.RecordBatch.from_pydict({"id": [n, n], "name": ["a", "b"]}, schema=SCHEMA)
        log.scope().publish("typed", rows)
    for topic in ("t", "proved", "typed"):
        move(log, tmp_path, topic)
    fill(log, 200, "t")
    fill(log, 200, "proved")
    move(log, tmp_path, "t", local_bytes=None)
    rows = pa.RecordBatch.from_pydict({"id": [9], "name": ["c"]}, schema=SCHEMA)
    log.scope().publish("typed", rows)
    told: list[int] = []

    report = jobs.audit(spark, url, ["t", "proved", "typed"], progress=told.append)

    assert report.is_sound, report.findings
    assert report.records == sum(told) == 2 * 3 * 600 + 6
    assert (report.topics, report.partitions) == (3, 7)
    assert report.copies == 3 * 2, "t's second copies hold what the log has, too"
    heads = [log.proof_head("proved", partition) for partition in range(3)]
    assert list(report.heads) == heads
    assert jobs.audit(spark, url, ["proved"], expected=heads).is_sound
    assert report.rows_per_s > 0

    everything = jobs.audit(spark, url)
    assert everything.topics > 3, "internal topics too"
    assert everything.is_sound


@pytest.mark.parametrize("url", ["file"], indirect=True)
@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("proof", [False, True])
def test_changed_missing_and_broken_copies_are_named(
    spark: SparkSession, log: Any, url: str, tmp_path: Path, *, proof: bool
) -> None:
    log.create_topic("t", proof=proof)
    fill(log, 900, partitions=1)
    move(log, tmp_path)
    fill(log, 100, partitions=1)
    move(log, tmp_path, local_bytes=None)
    changed, missing, torn = (objects(tmp_path)[index] for index in (1, 3, 4))
    still_hot = objects(tmp_path)[-1]

    flip(changed)
    missing.unlink()
    torn.write_bytes(torn.read_bytes()[:-100])
    flip(still_hot)
    report = jobs.audit(spark, url, ["t"])

    found = shown(report)
    assert [each[1] for each in found] == [150, 450, 600, 900]
    for (_, _, reason), path in zip(found, (changed, missing, torn, still_hot), strict=True):
        assert path.name in reason
    assert "not what was copied" in found[0][2]
    assert "missing" in found[1][2]
    assert found[3][2].startswith("the copy of [900, 1000): ")
    assert found[:3] == by_verify(log)
    assert report.records == 1000 - 3 * 150
    assert report.heads == ()


def flip(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:500] + bytes([content[500] ^ 1]) + content[501:])


@pytest.mark.parametrize("url", ["file"], indirect=True)
@pytest.mark.usefixtures("small_tasks")
def test_a_copy_that_was_forged_whole_is_found_at_its_border(
    spark: SparkSession, log: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two copies, each right by itself, which were written in another order than they lie.

    Whoever can do that rewrites the catalogue's digests, too; here both are of one log.
    """
    log.create_topic("t", proof=True)
    fill(log, 300, partitions=1)
    move(log, tmp_path)
    second = objects(tmp_path)[1]
    table = parquet.read_table(second)
    about = (table.schema.metadata or {})[b"strandline"]
    before = about.split(b'"chain":["')[1][:64]
    forged = about.replace(before, b"0" * 64)
    table = table.replace_schema_metadata({b"strandline": forged})
    parquet.write_table(table, second, row_group_size=150)
    believe(monkeypatch, log, second)

    found = shown(jobs.audit(spark, url, ["t"]))

    assert (0, 150, auditing._BROKEN) in found  # noqa: SLF001


def believe(monkeypatch: pytest.MonkeyPatch, log: Any, path: Path) -> None:
    """Tell the catalogue that this object is what was copied, as a forger would."""


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("proof", [False, True])
def test_holes_swapped_rows_and_falling_times_are_named(
    spark: SparkSession, log: Any, url: str, *, proof: bool
) -> None:
    log.create_topic("t", partitions=2, proof=proof)
    fill(log, 300, partitions=2)
    log.flush()
    path = url.partition(":")[2]
    with sqlite3.connect(path) as database:
        places = [row[0] for row in database.execute("SELECT place FROM strandline_records")]
    assert places
