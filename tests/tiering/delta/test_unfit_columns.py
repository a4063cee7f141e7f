"""Batches for which a Delta table has no columns."""

import contextlib
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from strandline.tiering import TieringWorker
from strandline.tiering.delta import has_table
from strandline.values import InvalidError
from tests.tiering.delta.tables import log_over, objects_of, offsets_of, table_of, tabled
from tests.triggers.calls import wait_until

UNFIT = {
    "case": pa.record_batch({"a": [1], "A": [2]}),
    "case of an own column": pa.record_batch({"_OFFSET": [1]}),
    "case in a struct": pa.record_batch({"s": [{"a": 1, "A": 2}]}),
    "case in a list": pa.record_batch({"s": [[{"a": 1, "A": 2}]]}),
    "case in a map": pa.record_batch(
        [
            pa.array(
                [[("k", {"a": 1, "A": 2})]], pa.map_("string", pa.struct({"a": "i4", "A": "i4"}))
            )
        ],
        names=["m"],
    ),
    "duration": pa.record_batch([pa.array([1], pa.duration("s"))], names=["d"]),
    "packed": pa.record_batch([pa.array([None], pa.month_day_nano_interval())], names=["i"]),
    "halves": pa.record_batch([pa.array([1.0], pa.float16())], names=["h"]),
}


@pytest.mark.parametrize("name", UNFIT)
def test_batches_that_no_table_can_hold_are_tiered_and_reported(tmp_path: Path, name: str) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t", value_kind="batch")
        log.append("t", UNFIT[name])

        with pytest.raises(InvalidError, match=r"records are tiered.* tier without delta"):
            tabled(log)

        assert not has_table(log.objects, log.topic("t"))
        assert log.evict("t", 0, 0) == 1
        assert [record.value for record in log.read("t", 0, 0)] == [UNFIT[name]]
        assert tabled(log, delta=False).copied == 0


def test_columns_of_several_batches_that_differ_in_case_alone_are_refused(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t", value_kind="batch")
        log.append("t", pa.record_batch({"a": [1]}))
        tabled(log)
        log.append("t", pa.record_batch({"A": [1]}))

        with pytest.raises(InvalidError, match="differ in more than case"):
            tabled(log)

        assert log.evict("t", 0, 0) == 2
        assert offsets_of(table_of(log, tmp_path)) == [0]


STRUCT = pa.array([{"a": 1}])
TYPES = {
    "integers, then texts": (pa.array([1]), pa.array(["x"])),
    "texts, then integers": (pa.array(["1"]), pa.array([2])),
    "integers, then floats": (pa.array([2**53 + 1]), pa.array([0.5])),
    "floats, then integers": (pa.array([0.5]), pa.array([2**53 + 1])),
    "dates, then texts": (pa.array([1], pa.date32()), pa.array(["2026-01-02"])),
    "times with a zone, then without": (
        pa.array([1], pa.timestamp("us", "UTC")),
        pa.array([1], pa.timestamp("us")),
    ),
    "lists of others": (pa.array([[1]]), pa.array([["x"]])),
    "another struct": (STRUCT, pa.array([{"b": 1}])),
    "a struct, then integers": (STRUCT, pa.array([1])),
    "decimals that each lack digits": (
        pa.array([1], pa.decimal128(10, 2)),
        pa.array([1], pa.decimal128(11, 4)),
    ),
}


@pytest.mark.parametrize("name", TYPES)
def test_a_column_of_two_types_is_tiered_and_not_in_the_table(tmp_path: Path, name: str) -> None:
    before, now = TYPES[name]
    with log_over(tmp_path) as log:
        log.create_topic("t", value_kind="batch")
        log.append("t", pa.record_batch([before], names=["a"]))
        tabled(log)
        log.append("t", pa.record_batch([now], names=["a"]))

        with pytest.raises(InvalidError, match="these two are incompatible"):
            tabled(log)

        assert log.evict("t", 0, 0) == 2
        assert table_of(log, tmp_path).to_pyarrow_table()["a"].to_pylist() == before.to_pylist()


@pytest.mark.parametrize("is_one_run", [True, False])
def test_a_column_of_two_types_is_named_with_a_way_out_that_works(
    tmp_path: Path, *, is_one_run: bool
) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t", value_kind="batch")
        log.append("t", pa.record_batch({"a": [1]}))
        if not is_one_run:
            tabled(log)
        log.append("t", pa.record_batch({"a": ["x"]}))

        with pytest.raises(InvalidError) as caught:
            tabled(log)

        named = caught.value.fields
        assert (named["topic"], named["column"]) == ("t", "a")
        assert (named["before"], named["now"]) == ("long", "string")
        with pytest.raises(InvalidError, match="these two are incompatible"):
            tabled(log, delta=False)
        shutil.rmtree(tmp_path / "cold" / str(named["folder"]))
        tabled(log, delta=False)
        assert log.evict("t", 0, 0) == 2
        assert len(list(log.read("t", 0, 0))) == 2


def test_the_table_follows_the_tier_before_a_column_that_it_cannot_hold(tmp_path: Path) -> None:
    """Partitions without such a column continue, and what is trimmed leaves table and store."""
    with log_over(tmp_path) as log:
        log.create_topic("t", value_kind="batch", partitions=2)
        for value in (1, 2, "x", 3):
            log.append("t", pa.record_batch({"a": [value]}), partition=0)
            with contextlib.suppress(InvalidError):
                tabled(log)
        log.append("t", pa.record_batch({"a": [7]}), partition=1)

        with pytest.raises(InvalidError, match="these two are incompatible"):
            tabled(log)
        before = table_of(log, tmp_path).to_pyarrow_table()["a"].to_pylist()
        log.trim("t", 0, 1, force=True)
        with pytest.raises(InvalidError, match="these two are incompatible"):
            tabled(log)

        assert sorted(before) == [1, 2, 7]
        assert sorted(table_of(log, tmp_path).to_pyarrow_table()["a"].to_pylist()) == [2, 7]
        values: list[Any] = [record.value for record in log.read("t", 0, 1)]
        assert [each["a"].to_pylist() for each in values] == [[2], ["x"], [3]]
        assert len(objects_of(log, tmp_path)) == 3


def test_a_topic_without_a_place_in_its_table_holds_up_no_other(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        for topic in ("bad", "good"):
            log.create_topic(topic, value_kind="batch")
            log.append(topic, pa.record_batch({"a": [1]}))
        log.append("bad", pa.record_batch({"a": ["x"]}))

        with TieringWorker(
            log, ["bad", "good"], log.objects, include_open=True, local_bytes=0, delta=True
        ):
            wait_until(lambda: log.evict("good", 0, 0) == 1)

        assert log.evict("bad", 0, 0) == 2


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (pa.int32(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.uint32(), pa.uint64()),
        (pa.decimal128(10, 2), pa.decimal128(12, 3)),
    ],
    ids=str,
)
def test_a_column_is_as_wide_as_the_widest_in_either_order(
    tmp_path: Path, narrow: pa.DataType, wide: pa.DataType
) -> None:
    for topic, kinds in (("t", (narrow, wide)), ("u", (wide, narrow))):
        with log_over(tmp_path / topic) as log:
            log.create_topic("t", value_kind="batch")
            for kind in kinds:
                log.append("t", pa.record_batch([pa.array([7], kind)], ["a"]))
                tabled(log)

            column = table_of(log, tmp_path / topic).to_pyarrow_table()["a"]
            assert [int(value) for value in column.to_pylist()] == [7, 7]
