"""`jobs.audit` finds everything that `verify` finds, and names it."""

import dataclasses
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

import strandline as sl
from strandline.spark import jobs
from strandline.spark.jobs import auditing
from strandline.spark.jobs.auditing import AuditReport
from strandline.spark.source import splits
from strandline.stores.sqlite.checksum import record_crc
from strandline.stores.sqlite.schema import OFFSET_BITS
from strandline.tiering import copying, open_store, tier, tiering_run
from strandline.tiering.copying import CopyDraft
from strandline.tiering.parquet import CopiedRows, digest_of, encode

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
    cut = splits.plan
    monkeypatch.setattr(auditing, "plan", lambda *args: cut(*args, records_max=100))


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
    locations = [each.location or "" for each in report.findings]
    for location, path in zip(locations, (changed, missing, torn, still_hot), strict=True):
        assert path.name in location
    assert "not what was copied" in found[0][2]
    assert "missing" in found[1][2]
    assert found[3][2].startswith("the copy of [900, 1000): ")
    assert found[:3] == by_verify(log)
    assert report.records == 1000 - 3 * 150
    assert report.heads == ()


def flip(path: Path, at: int = 500) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_damage_is_named_whosever_it_is(
    spark: SparkSession, log: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flipped bit in the log, and in the footer of an object; a record twice in a copy."""
    hot = log.create_topic("t", tenant="acme")
    footer = log.create_topic("footer", tenant="acme")
    twice = log.create_topic("twice", tenant="other")
    log.create_topic("sound", proof=True)
    for topic in (hot, footer, twice, "sound"):
        fill(log, 400, topic, partitions=1)
    log.flush()
    assert jobs.audit(spark, url).is_sound
    (segment,) = (Path(run.location) for run in log.segments(hot, 0))
    move(log, tmp_path, footer)
    broken = objects(tmp_path)[1]
    made = copying.read_piece

    def repeating(log: Any, place: Any, start: int, end: int, **options: Any) -> CopyDraft:
        piece = made(log, place, start, end, **options)
        rows = parquet.read_table(pa.BufferReader(piece.content))
        rows = rows.take([*range(10), 9, *range(10, rows.num_rows)])
        about = CopiedRows(piece.content, "here").about
        content = encode(rows.to_batches(), msgspec.structs.replace(about, rows=rows.num_rows))
        return dataclasses.replace(piece, content=content, digest=digest_of(content))

    with monkeypatch.context() as patch:
        patch.setattr(tiering_run, "read_piece", repeating)
        patch.setattr(CopiedRows, "check", lambda *_: None)
        move(log, tmp_path, twice)

    flip(segment, segment.read_bytes().index(b'{"n":250}'))
    flip(broken, -60)

    report = jobs.audit(spark, url)

    found = {(each.tenant, each.topic): each for each in report.findings}
    assert set(found) == {("acme", "t"), ("acme", "footer"), ("other", "twice")}
    assert found["acme", "t"].offset <= 250
    assert "a frame is damaged" in found["acme", "t"].reason
    assert found["acme", "t"].location is not None
    assert "not what was copied" in found["acme", "footer"].reason
    assert broken.name in str(found["acme", "footer"].location)
    assert "records are missing in this copy" in found["other", "twice"].reason
    assert {each.tenant for each in jobs.audit(spark, url, tenant="other").findings} == {"other"}


@pytest.mark.parametrize("url", ["file"], indirect=True)
@pytest.mark.usefixtures("small_tasks")
def test_copies_that_are_right_by_themselves_have_to_fit_together(
    spark: SparkSession, log: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of three is made of another history than the first."""
    log.create_topic("t", proof=True)
    fill(log, 300, partitions=1)
    made = copying.read_piece

    def forged(log: Any, place: Any, start: int, end: int, **options: Any) -> CopyDraft:
        piece = made(log, place, start, end, **options)
        if start != 100:
            return piece
        rows = CopiedRows(piece.content, "here")
        links = log.history("t", 0).chain.link_each(bytes(32), rows.digests())
        about = msgspec.structs.replace(rows.about, chain=(bytes(32).hex(), list(links)[-1].hex()))
        content = encode(parquet.read_table(pa.BufferReader(piece.content)).to_batches(), about)
        return dataclasses.replace(piece, content=content, digest=digest_of(content))

    monkeypatch.setattr(tiering_run, "read_piece", forged)
    move(log, tmp_path, piece_records=100)

    found = shown(jobs.audit(spark, url, ["t"]))

    assert found == [(0, 100, auditing.BROKEN), (0, 200, auditing.BROKEN)]


@pytest.mark.parametrize("url", ["file"], indirect=True)
@pytest.mark.usefixtures("small_tasks")
def test_a_digest_that_is_right_is_no_excuse_for_rows_that_are_not(
    spark: SparkSession, log: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies made by code that loses rows, or mixes them up, and does not look at them again."""
    log.create_topic("t")
    kept = {0: [*range(10), 11, 10, *range(12, 100)], 100: [*range(99)], 300: [*range(1, 100)]}
    made = copying.read_piece

    def faulty(log: Any, place: Any, start: int, end: int, **options: Any) -> CopyDraft:
        piece = made(log, place, start, end, **options)
        rows = parquet.read_table(pa.BufferReader(piece.content)).take(
            kept.get(start, [*range(100)])
        )
        about = CopiedRows(piece.content, "here").about
        content = encode(rows.to_batches(), msgspec.structs.replace(about, rows=rows.num_rows))
        return dataclasses.replace(piece, content=content, digest=digest_of(content))

    with monkeypatch.context() as patch:
        patch.setattr(tiering_run, "read_piece", faulty)
        patch.setattr(CopiedRows, "check", lambda *_: None)
        fill(log, 300, partitions=1)
        move(log, tmp_path, piece_records=100)
        fill(log, 100, partitions=1)
        move(log, tmp_path, piece_records=100, local_bytes=None)

    found = shown(jobs.audit(spark, url, ["t"]))

    assert [each[1] for each in found] == [0, 100, 300]
    assert "records are missing in this copy" in found[0][2]
    assert "this copy holds another run of records" in found[1][2]
    assert "records are missing in this copy" in found[2][2]
    assert found[:2] == by_verify(log)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("proof", [False, True])
def test_holes_swapped_rows_forgeries_and_falling_times_are_named(
    spark: SparkSession, log: Any, url: str, *, proof: bool
) -> None:
    topic = log.create_topic("t", partitions=2, proof=proof)
    fill(log, 400, partitions=2)
    log.flush()
    with sqlite3.connect(url.partition(":")[2]) as database:
        forger = Forger(database, topic.id.bytes)
        forger.run("DELETE FROM strandline_records WHERE place = ?", forger.place(0, 40))
        one, other = forger.place(0, 120), forger.place(0, 125)
        for place, target in ((one, -1), (other, one), (-1, other)):
            forger.run("UPDATE strandline_records SET place = ? WHERE place = ?", target, place)
        forger.change(1, 50, value=b'{"n":-1}')
        forger.change(1, 210, timestamp_us=1)
        # Just at the border of two stretches, which are of 100 records.
        forger.change(1, 300, timestamp_us=1)
    database.close()

    report = jobs.audit(spark, url, ["t"])

    found = [(*each[:2], each[2].partition(":")[0]) for each in shown(report)]
    wanted = [
        (0, 40, "a record is missing, restore it from a copy"),
        (0, 120, "this record does not match its checksum, restore it from a copy"),
        (0, 125, "this record does not match its checksum, restore it from a copy"),
        (1, 210, auditing.FALLS),
        (1, 300, auditing.FALLS),
    ]
    if proof:
        wanted += [
            (1, at, f"the records from {at} to {at} are not what was written there, or when")
            for at in (50, 210, 300)
        ]
    assert sorted(found) == sorted(wanted)
    assert sorted(shown(report)) == sorted(by_verify(log))


class Forger:
    """Changes rows of a database as an attacker would who knows how they are made."""

    def __init__(self, database: sqlite3.Connection, topic_id: bytes) -> None:
        self._database = database
        self._topic_id = topic_id
        (self._slot,) = database.execute(
            "SELECT first_slot FROM strandline_topics WHERE id = ?", (topic_id,)
        ).fetchone()

    def place(self, partition: int, offset: int) -> int:
        return (int(self._slot) + partition) << OFFSET_BITS | offset

    def run(self, statement: str, *values: object) -> None:
        assert self._database.execute(statement, values).rowcount == 1

    def change(self, partition: int, offset: int, **fields: Any) -> None:
        """Change columns of a record, and its checksum with them."""
        place = self.place(partition, offset)
        names = ("timestamp_us", "key", "tenant", "kind", "value", "headers", "occurred_at_us")
        columns = (*names, "size_bytes")
        row = self._database.execute(
            f"SELECT {', '.join(columns)} FROM strandline_records WHERE place = ?",  # noqa: S608
            (place,),
        ).fetchone()
        stored = {**dict(zip(columns, row, strict=True)), **fields}
        stamp, *content = stored.values()
        crc = record_crc(self._topic_id, partition, offset, stamp, tuple(content))
        self.run(
            "UPDATE strandline_records SET timestamp_us = ?, value = ?, crc = ? WHERE place = ?",
            stamp,
            stored["value"],
            crc,
            place,
        )
