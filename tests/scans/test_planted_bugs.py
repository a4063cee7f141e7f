"""The tests of scans are worth what they find: bugs planted in them are found by one of them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from strandline.scans import narrowing, paging
from strandline.scans.reading import ScanRead
from strandline.scans.skipping import Skipping
from strandline.tiering.footer import Footer
from tests.planting import Bug
from tests.scans import test_scan

pytestmark = pytest.mark.heavy


def filters(folder: Path) -> None:
    for number, condition in enumerate(test_scan.FILTERS):
        within = folder / str(number)
        within.mkdir()
        test_scan.test_a_pushed_filter_selects_what_it_selects_without_push_down(within, condition)


def offsets(folder: Path) -> None:
    test_scan.test_offsets_that_are_not_read_hold_no_row_that_matches(folder, "_offset <= 7")


def times(folder: Path) -> None:
    test_scan.test_offsets_that_are_not_read_hold_no_row_that_matches(folder, "_timestamp <= {at}")


def bounded(folder: Path) -> None:
    test_scan.test_what_statistics_of_another_column_exclude_is_not_fetched(folder)


BUGS: list[tuple[Bug, Callable[[Path], None]]] = [
    (
        Bug(
            "excluded groups are those that are read",
            Skipping,
            "_excluded",
            "_ not in _",
            "index in meeting",
        ),
        filters,
    ),
    (
        Bug(
            "a group is skipped though its column is of another type",
            Footer,
            "groups_meeting",
            "return None",
            "return set()",
        ),
        test_scan.test_versions_of_a_schema_are_one_table,
    ),
    (Bug("nothing is skipped", Skipping, "kept", "tier is None", "True"), bounded),
    (
        Bug(
            "cold objects say nothing of their columns",
            paging,
            "topic_columns",
            "found += footer.value_schemas",
            "pass",
        ),
        test_scan.test_columns_that_only_cold_records_have_are_there,
    ),
    (
        Bug("an end is left out", narrowing, "_of_offset", "(start, high + 1)", "(start, high)"),
        offsets,
    ),
    (
        Bug("a time is left out", narrowing, "_of_time", "max(known) + 1", "max(known)"),
        times,
    ),
    (
        Bug(
            "the end moves",
            ScanRead,
            "batches",
            "skipping.kept(...)",
            "[(start, self.log.marks(*place).high)]",
        ),
        test_scan.test_each_read_ends_where_the_topic_ended_when_the_scan_was_made,
    ),
]


@pytest.mark.parametrize(("bug", "scenario"), BUGS, ids=[str(bug) for bug, _ in BUGS])
def test_a_planted_bug_is_found(tmp_path: Path, bug: Bug, scenario: Callable[[Path], None]) -> None:
    with bug.planted(), pytest.raises(BaseException):  # noqa: B017, PT011 - Whatever finds it.
        scenario(tmp_path)
