"""Writers, tiering and retention continue while other programs read: each sees a whole run."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable

import strandline as sl
from strandline.values import TrimmedError
from tests.tiering.delta.tables import log_over, offsets_of, table_of, tabled
from tests.tiering.tiered import LogOver

pytestmark = pytest.mark.slow

ROUNDS = 12
RECORDS = 20


class Work:
    """Threads that end with the first error, which the test gets."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.is_done = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - The test raises it.
                self.errors.append(error)
                self.is_done.set()

        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
        for error in self.errors:
            raise error


def test_every_reader_sees_a_whole_run_while_the_topic_moves(tmp_path: Path) -> None:
    work, looks = Work(), {"table": 0, "scan": 0}
    with log_over(tmp_path, "file") as log:
        log.create_topic("t")
        log.append("t", sl.Event("k", {"n": 0}))
        tabled(log)

        def change() -> None:
            for number in range(ROUNDS):
                log.append_many("t", [sl.Event("k", {"n": n}) for n in range(RECORDS)])
                tabled(log)
                if number % 3 == 2:
                    log.trim("t", 0, log.marks("t", 0).high - RECORDS)
            work.is_done.set()

        def read_table() -> None:
            while not work.is_done.is_set():
                looks["table"] += _looked_at_table(log, tmp_path)

        def read_scan() -> None:
            while not work.is_done.is_set():
                looks["scan"] += _looked_at_scan(log)

        for each in (change, read_table, read_scan):
            work.start(each)
        work.join()

        assert min(looks.values()) > 0
        expected = [record.offset for record in log.read("t", 0, log.marks("t", 0).low)]
        assert offsets_of(table_of(log, tmp_path))[-len(expected) :] == expected
        assert log.scan("t").to_table().column("_offset").to_pylist() == expected


def _looked_at_table(log: LogOver, folder: Path) -> int:
    """Read a version of the table; 0 if retention has deleted a file of it meanwhile."""
    table = table_of(log, folder)
    try:
        found = offsets_of(table)
        seen = pl.scan_delta(table).select("_offset").collect()["_offset"].sort().to_list()
    except (OSError, pl.exceptions.ComputeError):
        assert DeltaTable(table.table_uri).version() > table.version()
        return 0
    assert found == seen == list(range(found[0], found[-1] + 1))
    return 1


def _looked_at_scan(log: LogOver) -> int:
    """Read one scan in two ways; 0 if a trim has overtaken it."""
    orders = log.scan("t", columns=["_offset"])
    try:
        found: list[Any] = orders.to_table().column("_offset").to_pylist()
        seen = duckdb.connect().sql("select _offset from orders order by all").fetchall()
    except (TrimmedError, duckdb.Error):
        assert log.marks("t", 0).low > 0
        return 0
    assert found == [row[0] for row in seen] == list(range(found[0], found[-1] + 1))
    return 1
