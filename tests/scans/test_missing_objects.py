"""A scan succeeds if a missing object has only records that it excludes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.dataset as ds
import pytest

import strandline as sl
from strandline.values import CorruptError, ValueKind
from tests.scans.scanned import topic_of
from tests.tiering.faulty_store import MemoryObjects
from tests.tiering.tiered import LogOver

# DuckDB and polars take a second to load.
pytestmark = pytest.mark.slow

_offset, _partition = ds.field("_offset"), ds.field("_partition")
_WAYS: dict[str, Callable[[sl.Log, int], Any]] = {
    "where partition": lambda log, end: log.scan("t", where="_partition = 1").to_table(),
    "where offset": lambda log, end: log.scan("t", where=f"_offset >= {end}").to_table(),
    "filter partition": lambda log, end: log.scan("t").to_table(filter=_partition == 1),
    "filter offset": lambda log, end: log.scan("t").to_table(filter=_offset >= end),
    "filter after an offset": lambda log, end: log.scan("t").to_table(filter=_offset > end - 1),
    "filter both": lambda log, end: log.scan("t").to_table(
        filter=(_partition > 0) & (_offset < end + 2)
    ),
    "filter either": lambda log, end: log.scan("t").to_table(
        filter=(_partition == 1) | (_offset > end)
    ),
    "filter a few": lambda log, end: log.scan("t").to_table(
        filter=_offset.isin([end + 1, end + 4])
    ),
    "count": lambda log, end: log.scan("t").count_rows(filter=_partition == 1),
    "polars": lambda log, end: log.scan("t").to_polars().filter(pl.col("_offset") >= end).collect(),
    "duckdb": lambda log, end: _by_duckdb(log.scan("t")),
}


def _by_duckdb(orders: Any) -> Any:
    return duckdb.sql("select * from orders where _partition = 1 order by _offset").to_arrow_table()


def _first_object(log: LogOver) -> tuple[str, int]:
    """Return the first object of partition 0, and where its records end."""
    objects = log.objects
    assert isinstance(objects, MemoryObjects)
    name = next(each for each in sorted(objects.objects) if f"/0/{0:020}-" in each)
    return name, int(name.rpartition("/")[2].split("-")[1])


_CASES = [
    *((way, ValueKind.EVENT, trimmed) for way in _WAYS for trimmed in (0, 3)),
    # Polars has not all types of the batches.
    *((way, ValueKind.BATCH, 0) for way in _WAYS if way != "polars"),
]


@pytest.mark.parametrize(("way", "kind", "trimmed"), _CASES)
def test_a_missing_object_is_not_opened_by_a_scan_that_excludes_it(
    tmp_path: Path, way: str, kind: ValueKind, trimmed: int
) -> None:
    with topic_of("memory", tmp_path, kind, "all") as log:
        log.trim("t", 0, trimmed, force=True)
        expected = _WAYS[way](log, _first_object(log)[1])

    with topic_of("memory", tmp_path, kind, "all") as log:
        log.trim("t", 0, trimmed, force=True)
        name, end = _first_object(log)
        log.objects.delete(name)

        found = _WAYS[way](log, end)

        assert _placed(found) == _placed(expected)
        with pytest.raises(CorruptError, match="missing"):
            log.scan("t", where="_partition = 0").to_table()


def _placed(found: Any) -> Any:
    """Return where the rows are: the two logs were written at different times."""
    if isinstance(found, int):
        return found
    placed = found.select(["_partition", "_offset"])
    return placed.rows() if isinstance(placed, pl.DataFrame) else placed.to_pylist()
