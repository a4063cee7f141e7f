"""Logs whose tier is an Iceberg table, in a catalogue in SQLite that can fail on purpose."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.utils.config import Config

from strandline.tiering import tier
from strandline.tiering.object_store import ObstoreStore
from tests.tiering.faulty_store import CrashError
from tests.tiering.tiered import LogOver

PIECE = 7
NAME = "lake.events.t"


class SteeredCatalog(SqlCatalog):
    """Calls what a test has set, before and after each commit."""

    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None

    def commit_table(self, *given: Any) -> Any:
        if SteeredCatalog.before is not None:
            SteeredCatalog.before()
        done = super().commit_table(*given)
        if SteeredCatalog.after is not None:
            SteeredCatalog.after()
        return done


class CountedStore(ObstoreStore):
    """Raises at the n-th call, before or after it is carried out."""

    def __init__(self, folder: Path) -> None:
        super().__init__((folder / "cold").absolute().as_uri())
        self.calls = 0
        self.fail_at: int | None = None
        self.is_after = False

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in {"put", "get", "get_end", "delete", "list"}:
            return found

        def call(*given: Any) -> Any:
            self.calls += 1
            fails = self.calls == self.fail_at
            if fails and not self.is_after:
                raise CrashError
            answer = found(*given)
            if fails:
                raise CrashError
            return answer

        return call


def settings(folder: Path) -> dict[str, str]:
    """Return the environment of a program that has the catalogue `lake`."""
    folder.mkdir(exist_ok=True)
    prefix = "PYICEBERG_CATALOG__LAKE"
    return {
        "POLARS_ICEBERG_PLANNER": "pyiceberg",  # It warns that there is a faster one.
        f"{prefix}__PY_CATALOG_IMPL": f"{__name__}.SteeredCatalog",
        f"{prefix}__URI": f"sqlite:///{folder / 'tables.db'}",
        f"{prefix}__WAREHOUSE": (folder / "warehouse").absolute().as_uri(),
    }


def catalogue_of(name: str = "lake") -> Catalog:
    """Return a catalogue as other programs load it."""
    properties: Any = Config().get_catalog_config(name)
    return load_catalog(name, **properties)


def tabled(log: LogOver, topic: str = "t", **options: Any) -> Any:
    """Copy everything in small objects to an Iceberg table, and evict it."""
    settings = {"piece_records": PIECE, "include_open": True, "local_bytes": 0, "iceberg": NAME}
    return tier(log, topic, log.objects, **{**settings, **options})


def table_of(name: str = NAME) -> Table:
    """Return a table as other programs load it."""
    catalogue, _, table = name.partition(".")
    return catalogue_of(catalogue).load_table(table)


def by_each_reader(table: Table) -> dict[str, list[Any]]:
    """Return the rows that each program reads, in the order of the log."""
    arrow = table.scan().to_arrow()
    found = {
        "pyiceberg": arrow.to_pylist(),
        "DuckDB": duckdb.from_arrow(arrow).to_arrow_table().to_pylist(),
        "polars": pl.scan_iceberg(table).collect().to_arrow().to_pylist(),
    }
    return {name: sorted(rows, key=place) for name, rows in found.items()}


def offsets_of(table: Table) -> list[int]:
    """Return the offsets in a table of one partition, sorted."""
    found = table.scan(selected_fields=("_offset",)).to_arrow()
    return sorted(pa.Table.from_batches(found.to_batches()).column("_offset").to_pylist())


def objects_in(folder: Path) -> set[str]:
    """Return the names of the tier's objects."""
    return {each.name for each in (folder / "cold").rglob("*.parquet")}


def place(row: Any) -> tuple[int, int, int]:
    return row["_partition"], row["_offset"], row["_row"]
