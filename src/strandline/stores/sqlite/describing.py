"""What a log is and holds, found out without a trace.

A connection that only reads still makes the files beside a database that nobody has
open, and notes in their index that it is there. See design 0020.
"""

import os
import threading
from typing import Final

from strandline.clock import SystemClock
from strandline.io import Io, SystemIo
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.reader import SqliteReader
from strandline.stores.sqlite.schema import translated
from strandline.values import (
    InvalidError,
    LogDescription,
    Mode,
    StrandlineError,
    UnavailableError,
)

_AT_REST: Final = "ro&immutable=1"
_IN_USE: Final = "ro&readonly_shm=1"
_LOOKS_MAX: Final = 20
_PAUSE_S: Final = 0.001


def describe_sqlite(path: str, *, io: Io | None = None) -> LogDescription:
    """Return what the log in this database is and holds; nothing is changed or created.

    InvalidError if there is no log. UnavailableError if others open and close it all the
    time.
    """
    files = io if io is not None else SystemIo()
    clock = SystemClock()
    before: LogDescription | None = None
    failure: StrandlineError | None = None
    for _ in range(_LOOKS_MAX):
        try:
            if _is_in_use(files, path):
                return _look(files, path, _IN_USE)
            seen = _look(files, path, _AT_REST)
        except StrandlineError as error:
            # Somebody may have opened or closed it in this very moment.
            failure = error
            clock.wait(threading.Event(), _PAUSE_S)
            continue
        # At rest nobody keeps a writer away: only two looks that agree saw one state.
        if seen == before:
            return seen
        before = seen
    raise failure or UnavailableError("this database never comes to rest, try again", path=path)


def _is_in_use(io: Io, path: str) -> bool:
    """Whether somebody has it open, or has died with it open."""
    with translated(path):
        try:
            if io.stat(f"{path}-wal").size == 0:
                return False
        except (FileNotFoundError, NotADirectoryError):
            return False
        if not io.exists(f"{path}-shm"):
            raise InvalidError(
                "this database was copied while it was open, open the log once to mend it",
                path=path,
            )
    return True


def _look(io: Io, path: str, access: str) -> LogDescription:
    database = Database(os.path.abspath(path), Mode.READ, io, SystemClock(), 0.0, access=access)
    try:
        return SqliteReader(database).describe()
    finally:
        database.close()
