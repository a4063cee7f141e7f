"""Logs whose tier is a Delta table, and what other programs read from it."""

import shutil
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable

import strandline as sl
from strandline.tiering import SegmentCatalogue, open_store, tier
from strandline.tiering.object_store import ObjectStore
from strandline.tiering.routing import topic_folder
from tests.tiering.faulty_store import MemoryObjects
from tests.tiering.tiered import LogOver, opened

PIECE = 7


def log_over(folder: Path, backend: str = "memory") -> LogOver:
    """Return a log over a directory that other programs can read."""
    return opened(backend, folder, open_store((folder / "cold").absolute().as_uri()))


def tabled(log: LogOver, topic: str = "t", **options: Any) -> Any:
    """Copy everything in small objects to a Delta table, and evict it."""
    settings = {"piece_records": PIECE, "include_open": True, "local_bytes": 0, "delta": True}
    return tier(log, topic, log.objects, **{**settings, **options})


def table_of(log: LogOver, folder: Path, topic: str = "t") -> DeltaTable:
    """Return the topic's table, as delta-rs reads it."""
    return DeltaTable(folder / "cold" / topic_folder(log.topic(topic)))


def dumped(objects: ObjectStore, folder: Path) -> Path:
    """Write what a store in memory holds to a directory, and return that."""
    assert isinstance(objects, MemoryObjects)
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in objects.objects.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def by_each_reader(table: DeltaTable) -> dict[str, list[Any]]:
    """Return the rows that each program reads, in the order of the log."""
    found = {
        "delta-rs": table.to_pyarrow_table().to_pylist(),
        "DuckDB": duckdb.from_arrow(table.to_pyarrow_dataset()).to_arrow_table().to_pylist(),
        "polars": pl.scan_delta(table).collect().to_arrow().to_pylist(),
    }
    return {name: sorted(rows, key=_place) for name, rows in found.items()}


def offsets_of(table: DeltaTable) -> list[int]:
    """Return the offsets in a table of one partition, sorted."""
    found: list[int] = table.to_pyarrow_table(columns=["_offset"]).column("_offset").to_pylist()
    return sorted(found)


def objects_of(log: LogOver, folder: Path) -> list[Path]:
    """Return the objects of the topic, by offset."""
    with SegmentCatalogue(log) as catalogue:
        catalogue.follow_all()
        places = catalogue.places()
        return [folder / "cold" / each.name for each in catalogue.segments(places[0])]


def stored_rows(log: sl.Log, topic: str = "t") -> list[Any]:
    """Return the rows of the log, with the column that only a copy has."""
    found: list[Any] = []
    for partition in range(log.describe_topic(topic).settings.partitions):
        batches = log.read_batches(topic, partition, log.marks(topic, partition).low)
        table = pa.Table.from_batches(list(batches), schema=batches.schema)
        found += [{**row, "_topic": topic} for row in table.to_pylist()]
    return found


def _place(row: Any) -> tuple[int, int, int]:
    return row["_partition"], row["_offset"], row["_row"]
