"""The Iceberg table where a process is killed, or several change it at once."""

import contextlib
import threading
from pathlib import Path

import pytest
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

import strandline as sl
from strandline.values import UnavailableError
from tests.tiering.delta.tables import log_over
from tests.tiering.faulty_store import CrashError
from tests.tiering.iceberg.tables import (
    CountedStore,
    SteeredCatalog,
    offsets_of,
    table_of,
    tabled,
)
from tests.tiering.tiered import filled, opened

pytestmark = pytest.mark.slow


def test_a_commit_by_another_process_is_not_reverted(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        filled(log, 20)
        tabled(log)
        log.append_many("t", [sl.Event("k", {}) for _ in range(10)])

        def another() -> None:
            SteeredCatalog.before = None
            log.trim("t", 0, 7, force=True)

        SteeredCatalog.before = another
        tabled(log)

        assert offsets_of(table_of()) == list(range(7, 30))


def test_commits_that_fail_for_ever_are_unavailable(tmp_path: Path) -> None:
    def fail() -> None:
        raise CommitFailedException("others are faster")

    with log_over(tmp_path) as log:
        filled(log, 20)
        SteeredCatalog.before = fail

        with pytest.raises(UnavailableError, match="keep committing"):
            tabled(log)

        assert log.evict("t", 0, 0) == 0


@pytest.mark.parametrize("is_after", [False, True])
def test_a_crash_at_any_call_neither_doubles_nor_skips_a_record(
    tmp_path: Path, *, is_after: bool
) -> None:
    objects = CountedStore(tmp_path)
    objects.is_after = is_after
    calls = 0
    with opened("file", tmp_path, objects) as log:
        filled(log, 20)
        while True:
            log.append_many("t", [sl.Event("k", {"n": n}) for n in range(10)])
            calls += 1
            objects.calls, objects.fail_at = 0, calls
            try:
                tabled(log, piece_records=100)
            except (CrashError, UnavailableError):
                low = log.marks("t", 0).low
                oldest = log.evict("t", 0, 0)
                with contextlib.suppress(NoSuchTableError):
                    found = offsets_of(table_of())
                    assert found == list(range(low, low + len(found)))
                    assert low + len(found) >= oldest, "what is evicted is in the table"
                objects.fail_at = None
                tabled(log, piece_records=100)
                found = offsets_of(table_of())
                assert found == list(range(low, log.marks("t", 0).high))
            else:
                break
    assert calls > 5


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_a_commit_neither_doubles_nor_skips_a_record(
    tmp_path: Path, moment: str
) -> None:
    def crash() -> None:
        setattr(SteeredCatalog, moment, None)
        raise CrashError

    with log_over(tmp_path, "file") as log:
        filled(log, 20)
        for _ in range(2):
            log.append_many("t", [sl.Event("k", {"n": n}) for n in range(10)])
            setattr(SteeredCatalog, moment, crash)

            with pytest.raises(UnavailableError):
                tabled(log)

            tabled(log)
            assert offsets_of(table_of()) == list(range(log.marks("t", 0).high))


def test_several_workers_and_retention_share_a_table(tmp_path: Path) -> None:
    errors: list[BaseException] = []
    with log_over(tmp_path, "file") as log:
        filled(log, 20)
        tabled(log)

        def work(number: int) -> None:
            try:
                for round_number in range(5):
                    log.append_many("t", [sl.Event("k", {"n": n}) for n in range(8)])
                    with contextlib.suppress(UnavailableError):
                        tabled(log)
                    if number == 0:
                        log.trim("t", 0, 4 * round_number, force=True)
            except BaseException as error:  # noqa: BLE001 - The test raises it.
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for error in errors:
            raise error
        tabled(log)

        marks = log.marks("t", 0)
        found = offsets_of(table_of())
        assert found == list(range(found[0], marks.high))
        assert found[0] <= marks.low
