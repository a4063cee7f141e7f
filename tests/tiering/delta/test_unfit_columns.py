"""Batches for which a Delta table has no columns."""

from pathlib import Path

import pyarrow as pa
import pytest

from strandline.tiering.delta import has_table
from strandline.values import InvalidError
from tests.tiering.delta.tables import log_over, offsets_of, table_of, tabled

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
def test_batches_that_no_table_can_hold_are_neither_copied_nor_evicted(
    tmp_path: Path, name: str
) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t", value_kind="batch")
        log.append("t", UNFIT[name])

        with pytest.raises(InvalidError, match="tier without delta"):
            tabled(log)

        assert log.objects.list("") == []
        assert not has_table(log.objects, log.topic("t"))
        assert log.evict("t", 0, 0) == 0
        tabled(log, delta=False)
        assert log.evict("t", 0, 0) == 1


def test_columns_of_several_batches_that_differ_in_case_alone_are_refused(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t", value_kind="batch")
        log.append("t", pa.record_batch({"a": [1]}))
        tabled(log)
        log.append("t", pa.record_batch({"A": [1]}))

        with pytest.raises(InvalidError, match="differ in more than case"):
            tabled(log)

        assert log.evict("t", 0, 0) == 1
        assert offsets_of(table_of(log, tmp_path)) == [0]
