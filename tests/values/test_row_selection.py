"""Rows of every type of column, by mask and by index."""

import pyarrow as pa
import pytest

from strandline.values.row_selection import filtered, taken

LONG = "longer than what a view holds itself"
VIEW = pa.string_view()
COLUMNS = {
    "plain": pa.array([1, None, 3, 4]),
    "text": pa.array([LONG, None, "c", LONG], VIEW),
    "bytes": pa.array([LONG.encode(), None, b"c", b""], pa.binary_view()),
    "list": pa.array([[LONG], None, [], [None, "d"]], pa.list_(VIEW)),
    "large list": pa.array([[LONG], None, [], [None, "d"]], pa.large_list(VIEW)),
    "pair": pa.array([[LONG, "a"], None, ["c", "c"], [None, "d"]], pa.list_(VIEW, 2)),
    "struct": pa.array([{"a": LONG}, None, {"a": None}, {"a": "d"}], pa.struct([("a", VIEW)])),
    "map": pa.array([[("k", LONG)], None, [], [("k", None)]], pa.map_(VIEW, VIEW)),
    "list of list views": pa.array([[[LONG]], None, [], [["d"]]], pa.list_(pa.list_view(VIEW))),
    "runs": pa.RunEndEncodedArray.from_arrays([3, 4], [LONG, "d"]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_rows_of_any_type_are_selected(name: str) -> None:
    field = pa.field("a", COLUMNS[name].type, metadata={"m": "1"})
    batch = pa.RecordBatch.from_arrays([COLUMNS[name]], schema=pa.schema([field]))
    rows = batch.to_pylist()

    some = filtered(batch, pa.array([True, None, False, True]))
    none = filtered(batch, pa.array([False] * 4))
    swapped = taken(batch.slice(1), pa.array([2, 0]))

    for each in (some, none, swapped):
        each.validate(full=True)
        assert each.schema.equals(batch.schema, check_metadata=True)
    assert some.to_pylist() == [rows[0], rows[3]]
    assert none.to_pylist() == []
    assert swapped.to_pylist() == [rows[3], rows[1]]


def test_selected_views_hold_none_of_the_other_rows() -> None:
    batch = pa.record_batch({"a": pa.array([f"{LONG} {n}" for n in range(1000)], VIEW)})

    found = filtered(batch, pa.array([n % 100 == 0 for n in range(1000)]))

    assert found.serialize().size < batch.serialize().size / 20
