"""Polars reads the same values as the log, for decimals of any width."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from strandline.values import ValueKind
from tests.scans.scanned import topic_of

# Polars takes a second to load.
pytestmark = pytest.mark.slow

_NUMBERS = [Decimal("1.50"), None, Decimal("-2.25"), Decimal("99.99"), Decimal("0.01")]
_DECIMALS = [pa.decimal32(5, 2), pa.decimal64(12, 2), pa.decimal128(20, 2), pa.decimal256(38, 2)]
_WITHIN: dict[str, tuple[Callable[[Any], pa.DataType], Callable[[Any], Any]]] = {
    "plain": (lambda arrow: arrow, lambda value: value),
    "struct": (lambda arrow: pa.struct({"x": arrow}), lambda value: {"x": value}),
    "list": (pa.list_, lambda value: [value, value]),
    "large list": (pa.large_list, lambda value: [value]),
    "fixed list": (lambda arrow: pa.list_(arrow, 2), lambda value: [value, value]),
    "map": (lambda arrow: pa.map_(pa.string(), arrow), lambda value: {"k": value}),
    "lists of structs": (lambda a: pa.list_(pa.struct({"x": a})), lambda value: [{"x": value}]),
}


@pytest.mark.parametrize("within", _WITHIN)
@pytest.mark.parametrize("arrow", _DECIMALS, ids=str)
def test_decimals_of_any_width_are_the_same_in_polars(
    tmp_path: Path, arrow: pa.DataType, within: str
) -> None:
    typed, made = _WITHIN[within]
    values = [made(each) for each in _NUMBERS]
    column = pa.array(values, typed(arrow))
    with topic_of("memory", tmp_path, ValueKind.BATCH, "none", count=0) as log:
        log.append("t", pa.record_batch({"n": range(len(values)), "c": column}), partition=0)
        frame = log.scan("t").to_polars()

        assert frame.collect()["c"].to_list() == values
        assert frame.select("c").head(2).collect()["c"].to_list() == values[:2]
        assert frame.filter(pl.col("n") > 2).collect()["c"].to_list() == values[3:]
