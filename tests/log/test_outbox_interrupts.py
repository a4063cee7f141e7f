"""An interrupt at any line of a block: rows and events agree, and no lock stays locked."""

import itertools
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from strandline.log import Log, Receipt
from strandline.stores.sqlite import block, outbox
from strandline.values import InvalidError
from tests.log.shop import CREATED, add, kinds, make_shop, rows
from tests.logs import sqlite_log

FILES = {outbox.__file__, block.__file__}
#: More than there are.
LINES_MAX = 2000
STRIDE = 3


def interrupted(log: Log, nth: int, receipts: list[Receipt]) -> bool:
    """Commit a row and an event with an interrupt at the `nth` line; False if there is none."""
    lines = itertools.count(1)

    def trace(frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        # SQLite takes what is raised there for a no, which is an error like any other.
        if code.co_filename not in FILES or code.co_name == "_authorize":
            return None
        if frame.f_back is not None and frame.f_back.f_code.co_name == "_authorize":
            return None
        if event == "line" and next(lines) == nth:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        with log.transaction() as connection:
            connection.execute("SAVEPOINT mine")
            add(connection, str(nth))
            receipts.append(log.append("orders", CREATED))
            connection.execute("RELEASE mine")
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


def is_stored(receipts: list[Receipt]) -> bool:
    try:
        return bool([receipt.wait(timeout_s=0) for receipt in receipts])
    except InvalidError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, STRIDE + 1))
def test_an_interrupt_at_any_line_leaves_the_log_as_it_was_or_whole(
    tmp_path: Path, first: int
) -> None:
    path = make_shop(tmp_path)
    with sqlite_log(path, lock_timeout_s=0.5) as log:
        log.create_topic("orders")
        for nth in range(first, LINES_MAX, STRIDE):
            receipts: list[Receipt] = []
            count = len(kinds(log))
            was_interrupted = interrupted(log, nth, receipts)
            assert len(rows(path)) - 1 == len(kinds(log)), f"line {nth}"
            assert is_stored(receipts) == (len(kinds(log)) > count), f"line {nth}"
            with log.transaction() as connection:
                add(connection, f"after {nth}")
                log.append("orders", CREATED)
            if not was_interrupted:
                break
        else:
            raise AssertionError("it never came to its end")
        assert nth > 50
