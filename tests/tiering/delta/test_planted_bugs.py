"""The tests of Delta tables are worth what they find: each planted bug is found by one of them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake.exceptions import CommitFailedError

from strandline.tiering import erasing, removal
from strandline.tiering.delta import publishing, statistics
from strandline.tiering.delta.publishing import _DeltaTable
from strandline.tiering.delta.schema import TableColumns
from strandline.tiering.delta.transaction_log import Snapshot, TransactionLog
from strandline.tiering.table_files import TableFiles
from tests.planting import Bug
from tests.tiering.delta import test_foreign_programs as foreign
from tests.tiering.delta import test_merging as merging
from tests.tiering.delta import test_other_programs as other
from tests.tiering.delta import test_payload_columns as columns
from tests.tiering.delta import test_table as table
from tests.tiering.delta.tables import log_over, table_of, tabled
from tests.tiering.faulty_store import CrashError
from tests.tiering.tiered import filled

pytestmark = pytest.mark.heavy


def faults(folder: Path) -> None:
    table.test_a_fault_at_any_call_neither_doubles_nor_skips_a_record(
        folder, CrashError, is_after=True
    )


def a_forced_rewrite(folder: Path) -> None:
    with log_over(folder) as log:
        filled(log)
        tabled(log)
        other.forced(log, protocol={"minReaderVersion": 1, "minWriterVersion": 2})
        tabled(log)
        with pytest.raises(CommitFailedError, match="strandlineTier"):
            table_of(log, folder).optimize.compact()


def a_checkpoint(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        table.test_a_table_continues_from_a_checkpoint(folder, patch)


Scenario = Callable[[Path], None]
BUGS: list[tuple[Bug, Scenario]] = [
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
        Bug(
            "a commit replaces another",
            TransactionLog,
            "commit",
            "_.put_new(...)",
            "self._store.put(self._name(version), b'\\n'.join(lines)) is None or True",
        ),
        table.test_two_that_commit_at_once_both_get_their_files_in_once,
    ),
    (
        Bug("nothing is removed", _DeltaTable, "changes", "path not in wanted", "False"),
        faults,
    ),
    (
        Bug("copies may leave a gap", TableFiles, "_run", "segment.start != _", "False"),
        other.test_an_object_that_was_vacuumed_while_the_log_has_its_records_is_copied_again,
    ),
    (
        Bug(
            "other writers are let in again",
            _DeltaTable,
            "changes",
            "columns != snapshot.columns or is_open or snapshot.foreign",
            "columns != snapshot.columns",
        ),
        a_forced_rewrite,
    ),
    (
        Bug(
            "older columns are forgotten",
            TableColumns,
            "widened",
            "return _",
            "return TableColumns(now)",
        ),
        table.test_columns_of_older_objects_stay_in_the_table,
    ),
    (
        Bug(
            "a field that left comes back",
            TableColumns,
            "widened",
            "return _",
            "return TableColumns(text)",
        ),
        columns.test_a_field_that_is_declared_with_another_type_leaves_the_table_for_good,
    ),
    (
        Bug("what was erased stays in a column", erasing, "_erased", "FIELDS in _", "False"),
        columns.test_what_is_erased_is_gone_from_the_columns,
    ),
    (
        Bug("merging changes data", publishing, "_moved", "merged and merged <= known", "False"),
        merging.test_merging_is_one_commit_that_changes_no_data,
    ),
    (
        Bug("new rows are no change", publishing, "_moved", "merged <= known", "True"),
        merging.test_what_a_table_has_not_had_changes_its_data_also_if_it_was_merged,
    ),
    (
        Bug("a deletion vector stays", _DeltaTable, "changes", "_.get('deletionVector')", "False"),
        foreign.test_rows_that_a_deletion_vector_hides_are_shown_again,
    ),
    (
        Bug("the greatest time is cut", statistics, "_time", "whole += 1", "pass"),
        table.test_no_record_is_skipped_by_the_statistics_of_its_time,
    ),
    (
        Bug("what left the table is still in it", Snapshot, "take", "self.files.pop(...)", "pass"),
        table.test_two_that_commit_at_once_both_get_their_files_in_once,
    ),
    (
        Bug(
            "a checkpoint is not begun with",
            TransactionLog,
            "_checkpoint",
            "return version + 1",
            "return 0",
        ),
        a_checkpoint,
    ),
]


@pytest.mark.parametrize(("bug", "scenario"), BUGS, ids=[str(bug) for bug, _ in BUGS])
def test_a_planted_bug_is_found(tmp_path: Path, bug: Bug, scenario: Scenario) -> None:
    with bug.planted(), pytest.raises(BaseException):  # noqa: B017, PT011 - Whatever finds it.
        scenario(tmp_path)
