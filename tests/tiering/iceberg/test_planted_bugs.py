"""Each of these bugs, planted in the code of the Iceberg table, is found by a test."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from strandline.tiering import removal
from strandline.tiering.iceberg import columns
from strandline.tiering.iceberg.publishing import _IcebergTable
from tests.planting import Bug
from tests.tiering.iceberg import test_columns as fitting
from tests.tiering.iceberg import test_table as table
from tests.tiering.iceberg import test_together as together

pytestmark = pytest.mark.heavy


BUGS: list[tuple[Bug, Callable[[Path], None]]] = [
    (
        Bug(
            *("pyiceberg commits again", _IcebergTable, "_set_properties"),
            *("commit.set_properties(_)", "pass"),
        ),
        together.test_several_workers_and_retention_share_a_table,
    ),
    (
        Bug("every file seems new", _IcebergTable, "update", "path not in there", "True"),
        table.test_later_runs_and_compaction_update_the_table_without_being_asked,
    ),
    (
        Bug("nothing leaves the table", _IcebergTable, "update", "path not in wanted", "False"),
        table.test_later_runs_and_compaction_update_the_table_without_being_asked,
    ),
    (
        Bug("no process knows of the table", _IcebergTable, "_created", "record_name(...)", "pass"),
        table.test_what_retention_deletes_has_left_the_table_before,
    ),
    (
        Bug(
            "objects are deleted while the table has them",
            removal,
            "retire",
            "_unlist(...)",
            "pass",
        ),
        table.test_what_retention_deletes_has_left_the_table_before,
    ),
    (
        Bug("large numbers are taken for signed ones", columns, "_type", "arrow in _KEPT", "True"),
        partial(
            fitting.test_a_type_that_readers_would_take_for_another_has_no_table,
            arrow=pa.uint64(),
        ),
    ),
]


@pytest.mark.parametrize(("bug", "scenario"), BUGS, ids=[str(bug) for bug, _ in BUGS])
def test_a_planted_bug_is_found(tmp_path: Path, bug: Bug, scenario: Callable[[Path], None]) -> None:
    with bug.planted(), pytest.raises(BaseException):  # noqa: B017, PT011 - Whatever finds it.
        scenario(tmp_path)
