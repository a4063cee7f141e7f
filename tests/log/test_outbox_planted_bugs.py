"""Each bug that is planted in the outbox is detected by its test."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from strandline.stores.sqlite.appends import AppendBracket
from strandline.stores.sqlite.block import BlockConnection, TransactionBlock
from strandline.stores.sqlite.outbox import Outbox
from strandline.stores.sqlite.writer import Writer
from tests.log import test_outbox as tests
from tests.log.shop import make_shop
from tests.logs import sqlite_log
from tests.planting import Bug


class Planted(NamedTuple):
    """A bug, and the test that has to notice."""

    bug: Bug
    caught_by: Callable[..., None]
    #: Whether the test wants to know where the database is.
    needs_path: bool = False

    def __str__(self) -> str:
        return self.bug.title


BUGS = [
    Planted(
        Bug(
            "readers are woken before the commit",
            Outbox,
            "_commit",
            "_.execute('COMMIT')",
            "self._on_written(heads); _",
        ),
        tests.test_no_reader_is_notified_before_the_commit,
    ),
    Planted(
        Bug(
            "a rollback keeps the head",
            Outbox,
            "join",
            "Heads(...)",
            "self.__dict__.setdefault('kept', _)",
        ),
        tests.test_a_block_that_raises_leaves_nothing_of_either,
        needs_path=True,
    ),
    Planted(
        Bug(
            "an append continues from the head before a block",
            AppendBracket,
            "_begin",
            "self._heads.version = None",
            "pass",
        ),
        tests.test_appends_continue_densely_around_blocks,
    ),
    Planted(
        Bug(
            "what was taken back to a savepoint counts as stored",
            Outbox,
            "_check_joined",
            "joined.error = _undone(...)",
            "pass",
        ),
        tests.test_a_savepoint_takes_events_back_with_the_rows,
        needs_path=True,
    ),
    Planted(
        Bug("a durable append is not synced", Writer, "transaction", "self.sync()", "pass"),
        tests.test_a_durable_append_makes_its_whole_block_durable,
    ),
    Planted(
        Bug(
            "a receipt is never told of a rollback",
            Outbox,
            "_roll_back",
            "joined.error = joined.error or _undone(...)",
            "pass",
        ),
        tests.test_a_block_that_raises_leaves_nothing_of_either,
        needs_path=True,
    ),
    Planted(
        Bug(
            "a commit of the caller's goes through",
            BlockConnection,
            "_authorize",
            "action == sqlite3.SQLITE_TRANSACTION",
            "False",
        ),
        tests.test_what_would_end_the_transaction_is_refused_and_it_continues,
        needs_path=True,
    ),
    Planted(
        Bug(
            "rows are seen the caller's way by us",
            TransactionBlock,
            "plain",
            "_, _ = None, str",
            "pass",
        ),
        tests.test_how_the_caller_sees_rows_does_not_matter_to_the_log,
    ),
]


@pytest.mark.parametrize("planted", BUGS, ids=str)
def test_the_tests_catch_a_planted_bug(planted: Planted, tmp_path: Path) -> None:
    assert not _breaks(planted, tmp_path / "healthy")

    with planted.bug.planted():
        assert _breaks(planted, tmp_path / "broken")


def _breaks(planted: Planted, folder: Path) -> BaseException | None:
    folder.mkdir()
    path = make_shop(folder)
    with sqlite_log(path, lock_timeout_s=0.2) as log:
        log.create_topic("orders")
        given: list[Any] = [path, log] if planted.needs_path else [log]
        try:
            planted.caught_by(*given)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - However it notices.
            return error
        return None
