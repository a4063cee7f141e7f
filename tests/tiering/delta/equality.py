"""Every reader of a topic has the rows of the log, while processes that move it are killed."""

import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import strandline as sl
from strandline.tiering import SegmentCatalogue
from strandline.tiering.parquet import FIELDS
from tests.spark_pythons import environment
from tests.tiering.delta.tables import by_each_reader, log_over, table_of, tabled
from tests.tiering.iceberg import tables as iceberg
from tests.tiering.tier_kills import ROOT
from tests.tiering.tiered import LogOver

PROCESS = Path(__file__).with_name("moving_process.py")
DECLARED = pa.schema({"n": pa.int64(), "odd": pa.bool_()})
ROUNDS = 1
Reader = Callable[[Path, int], list[Any]]


def filled(log: sl.Log) -> None:
    """Make the topic, with enough in it to be moved."""
    log.create_topic("t", partitions=2, payload_schema=DECLARED)
    log.append_many("t", [event(number) for number in range(40)])


def event(number: int) -> sl.Event:
    """Return an event with one field that is not always as it was declared."""
    odd: object = bool(number % 2) if number % 5 else "no"
    return sl.Event("k", {"n": number, "odd": odd}, key=f"k{number % 7}")


def killed_movers(url: str, store: str, seed: int) -> None:
    """Let three processes append, tier, merge and trim at once, and kill two at random."""
    choice = random.Random(seed)
    commands = [sys.executable, str(PROCESS), url, store, str(seed)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    running = [
        subprocess.Popen(
            [*commands, str(choice.randrange(1, 120) if number else 0)], cwd=ROOT, env=environment
        )
        for number in range(3)
    ]
    codes = [process.wait(300) for process in running]
    assert set(codes) <= {0, -signal.SIGKILL}, codes
    assert codes[0] == 0


def check_equal(log: LogOver, folder: Path, others: Mapping[str, Reader] | None = None) -> int:
    """Compare what each reader has; return how many rows that is."""
    version = table_of(log, folder)
    found = by_each_reader(version)
    expected = found.pop("delta-rs")
    for name, rows in found.items():
        assert rows == expected, name
    assert iceberg.by_each_reader(iceberg.table_of())["pyiceberg"] == expected
    for name, read in (others or {}).items():
        assert read(folder, version.version()) == expected, name
    places = [(row["_partition"], row["_offset"]) for row in expected]
    assert places == sorted(set(places))
    for partition in range(2):
        offsets = [offset for number, offset in places if number == partition]
        assert offsets == list(range(offsets[0], offsets[-1] + 1))
    _check_files(log, expected)
    _check_scan(log, expected)
    return len(expected)


def _check_files(log: LogOver, expected: list[Any]) -> None:
    """The objects that answer, by themselves, are the table."""
    rows: list[Any] = []
    with SegmentCatalogue(log) as catalogue:
        catalogue.follow_all()
        for place in catalogue.places():
            for copy in catalogue.current(place):
                content = log.objects.get(copy.name)
                assert content is not None
                rows += pq.read_table(pa.BufferReader(content)).to_pylist()
    rows.sort(key=lambda row: (row["_partition"], row["_offset"]))
    assert rows == expected


def _check_scan(log: LogOver, expected: list[Any]) -> None:
    """What is above the low-water mark is what the log has, read in three ways."""
    lows = [log.marks("t", number).low for number in range(2)]
    kept = [
        {name: value for name, value in row.items() if name not in {FIELDS, "_topic"}}
        for row in expected
        if row["_offset"] >= lows[row["_partition"]]
    ]
    scan = log.scan("t")
    for name, table in {
        "Arrow": scan.to_table(),
        "DuckDB": duckdb.from_arrow(scan).to_arrow_table(),
        "polars": scan.to_polars().collect().to_arrow(),
    }.items():
        rows = sorted(table.to_pylist(), key=lambda row: (row["_partition"], row["_offset"]))
        assert [row for row in rows if row in kept] == kept, name
        assert len(rows) == sum(log.marks("t", n).high - lows[n] for n in range(2)), name


def run(folder: Path, seed: int, others: Mapping[str, Reader] | None = None) -> int:
    """Move the topic in rounds, with kills, and compare after each; return how many rows."""
    rows = 0
    url, store = f"file:{folder / 'log'}", (folder / "cold").absolute().as_uri()
    tables = iceberg.settings(folder / "lake")
    with environment(tables), log_over(folder, "file") as log:
        filled(log)
        tabled(log, iceberg=iceberg.NAME)
        rows += check_equal(log, folder, others)
        for number in range(ROUNDS):
            killed_movers(url, store, seed * ROUNDS + number)
            tabled(log, compact_bytes=1 << 30, grace_s=0)
            rows += check_equal(log, folder, others)
    return rows


def kill_movers(seed: int) -> None:
    """Run one seed in its own folder."""
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), seed)
