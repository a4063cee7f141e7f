"""Each planted bug in lagging heads is detected by their tests."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from strandline._core import IS_COMPILED
from strandline.log import Log
from strandline.stores.sqlite import partition_row
from strandline.stores.sqlite.appends import AppendBracket
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.durable_marks import DurableMarks
from strandline.stores.sqlite.store import SqliteStore
from strandline.stores.sqlite.store_lock import StoreLock
from strandline.values import StrandlineError
from tests.log import test_sqlite_heads as heads
from tests.logs import sqlite_log
from tests.planting import Bug


class Planted(NamedTuple):
    """A bug, and the test that has to notice."""

    bug: Bug
    caught_by: Callable[[str, Log], None]

    def __str__(self) -> str:
        return self.bug.title


BUGS = [
    Planted(
        Bug(
            "two locks of one process sign alike",
            StoreLock,
            "__init__",
            "self._signature = _",
            "self._signature = os.getpid().to_bytes(16, 'big')",
        ),
        heads.test_logs_that_take_turns_find_each_others_single_appends,
    ),
    Planted(
        Bug(
            "who signs again does not say that others were there",
            StoreLock,
            "_sign",
            "self.breaks += 1",
            "pass",
        ),
        heads.test_what_others_append_is_found_also_where_the_lock_was_ours_since,
    ),
    Planted(
        Bug(
            "the last holder of the lock is not checked",
            AppendBracket,
            "begin_unbroken",
            "_.is_unbroken()",
            "True",
        ),
        heads.test_logs_that_take_turns_find_each_others_single_appends,
    ),
    Planted(
        Bug(
            "a removed lock file goes unnoticed",
            StoreLock,
            "is_unbroken",
            "look()" if IS_COMPILED else "self.is_current()",
            "True",
        ),
        heads.test_an_append_that_meets_a_new_lock_file_continues_after_the_others,
    ),
    Planted(
        Bug(
            "who has waited does not look whether its lock still counts",
            Database,
            "begin",
            "self.lock.is_current()",
            "True",
        ),
        heads.test_a_writer_that_waits_with_a_removed_lock_file_is_seen_by_the_next,
    ),
    Planted(
        Bug("heads are left behind at a close", DurableMarks, "settle", "self.note_ends()", "pass"),
        heads.test_the_newest_of_single_appends_is_missed_when_it_is_gone,
    ),
    Planted(
        Bug(
            "a repair leaves heads behind",
            Database,
            "checkpoint",
            "note_tails(...)",
            "pass",
        ),
        heads.test_the_newest_is_missed_also_after_the_repair_of_a_failed_sync,
    ),
    Planted(
        Bug(
            "a gap after a head is overlooked",
            partition_row,
            "load_partition",
            "last != place(...)",
            "False",
        ),
        heads.test_a_gap_beyond_the_head_is_detected,
    ),
    Planted(
        Bug(
            "records after a head have no size",
            partition_row,
            "load_partition",
            "row.size_bytes += _",
            "pass",
        ),
        heads.test_single_appends_are_seen_by_others_at_once,
    ),
    Planted(
        Bug(
            "a state counts what heads notify of",
            partition_row,
            "load_partition",
            "if tail: ...",
            "pass",
        ),
        heads.test_single_appends_are_seen_by_others_at_once,
    ),
    Planted(
        Bug(
            "a sync leaves its mark to others for later",
            SqliteStore,
            "sync",
            "self._marks.note(...)",
            "self._marks._ended.set()",
        ),
        heads.test_a_sync_and_a_close_leave_the_durable_mark_to_others,
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("planted", BUGS, ids=str)
def test_a_planted_bug_is_noticed(planted: Planted, tmp_path: Path) -> None:
    _check(planted, tmp_path / "healthy.sqlite")

    with planted.bug.planted(), pytest.raises((AssertionError, Noticed, *TROUBLES)):
        _check(planted, tmp_path / "planted.sqlite")


#: What a test that expects an error and gets none ends with.
Noticed = pytest.fail.Exception
TROUBLES = StrandlineError, sqlite3.Error


def _check(planted: Planted, path: Path) -> None:
    with sqlite_log(str(path)) as log:
        log.create_topic("orders")
        planted.caught_by(str(path), log)
