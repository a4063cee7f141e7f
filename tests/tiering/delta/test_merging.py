"""Objects that are merged leave their Delta table in the commit that brings the larger one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strandline.tiering import compact
from strandline.tiering.routing import topic_folder
from strandline.values import UnavailableError
from tests.tiering.delta.tables import (
    by_each_reader,
    dumped,
    log_over,
    offsets_of,
    table_of,
    tabled,
)
from tests.tiering.faulty_store import CrashError, FaultyObjects
from tests.tiering.tiered import LogOver, filled, opened

pytestmark = pytest.mark.slow


def changes_of(log: LogOver, folder: Path, version: int) -> list[tuple[str, bool]]:
    """Return what a commit adds and removes, and whether it says that this changes data."""
    root = folder / "cold" / topic_folder(log.topic("t"))
    lines = (root / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    found: list[tuple[str, bool]] = []
    for action in map(json.loads, lines):
        found += [
            (name, action[name]["dataChange"]) for name in ("add", "remove") if name in action
        ]
    return found


def test_merging_is_one_commit_that_changes_no_data(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log, 30)
        tabled(log)
        held = table_of(log, tmp_path)
        before = by_each_reader(held)

        report = compact(log, "t", log.objects)

        table = table_of(log, tmp_path)
        assert report.merged == 5
        assert table.version() == held.version() + 1
        assert len(table.file_uris()) == 1
        assert by_each_reader(table) == before
        assert by_each_reader(held) == before  # Its files stay for the grace.
        changes = changes_of(log, tmp_path, table.version())
        assert changes == [("remove", False)] * 5 + [("add", False)]
        assert table.history(1)[0]["operation"] == "OPTIMIZE"
        compact(log, "t", log.objects, grace_s=0)
        assert table_of(log, tmp_path).version() == table.version()


def test_what_a_table_has_not_had_changes_its_data_also_if_it_was_merged(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log, 30)
        tabled(log, piece_records=20)
        log.append_many("t", [record.value for record in log.read("t", 0, 0)])
        tabled(log, delta=False, compact_bytes=1 << 30)

        table = table_of(log, tmp_path)

        assert ("add", True) in changes_of(log, tmp_path, table.version())
        assert table.history(1)[0]["operation"] == "WRITE"
        assert offsets_of(table) == list(range(60))


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("error", [lambda: UnavailableError("away"), CrashError])
def test_a_fault_at_any_call_of_a_merge_leaves_a_whole_table(
    tmp_path: Path, error: Callable[[], Exception], *, is_after: bool
) -> None:
    number = 0
    while True:
        number += 1
        objects = FaultyObjects()
        with opened("memory", tmp_path, objects) as log:
            filled(log)
            tabled(log)
            objects.calls.clear()
            objects.fail_at, objects.is_after, objects.error = number, is_after, error
            try:
                compact(log, "t", objects, grace_s=0)
            except (UnavailableError, CrashError):
                objects.fail_at = None
            else:
                break

            assert _offsets(log, tmp_path) == list(range(20))
            compact(log, "t", objects, grace_s=0)
            assert _offsets(log, tmp_path) == list(range(20))
            assert len([name for name in objects.objects if name.endswith(".parquet")]) == 1
    assert number > 15


def _offsets(log: LogOver, folder: Path) -> list[Any]:
    dumped(log.objects, folder / "cold")
    return offsets_of(table_of(log, folder))
