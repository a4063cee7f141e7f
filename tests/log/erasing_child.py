"""Erases a key, and is killed on the way. Run as a program with a log and where to end."""

import os
import signal
import sys
from typing import Any

import strandline as sl
from strandline.stores.files import erasing as files_erasing
from strandline.stores.sqlite import SqliteStore
from strandline.stores.sqlite.erasing import Erasing

SECRET = "personal-and-to-be-erased"  # noqa: S105 - What is erased.


def fill(log: sl.Log) -> None:
    """Append 105 records, of which 22 have the key bob."""
    for number in range(5):
        text = SECRET if number % 2 else ""
        key = "bob" if number % 2 else "al"
        log.append("orders", sl.Event("order", {"id": number, "text": text}), key=key)
    values = [sl.Event("order", {"text": "" if each % 5 else SECRET}) for each in range(100)]
    keys = ["x" if each % 5 else "bob" for each in range(100)]
    log.append_many("orders", values, keys=keys)


def die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def main(url: str, step: str) -> None:
    if step == "before":
        # New content is there, and nothing names it yet; of a database, nothing is changed.
        files_erasing._Rewriting.grown_below = die  # type: ignore[method-assign] # noqa: SLF001
        Erasing._erase_row = die  # type: ignore[method-assign] # noqa: SLF001
    else:
        files_erasing._remove = die  # noqa: SLF001
        SqliteStore._empty_wal = die  # type: ignore[method-assign] # noqa: SLF001
    with sl.open(url) as log:
        log.erase("orders", key="bob")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
