"""Describes a log without changing any file.

Even a connection that only reads creates files beside a database that no process has open,
and registers in their index. See design 0020.
"""

import threading
from typing import Final

from strandline.clock import SystemClock
from strandline.io import Io, SystemIo
from strandline.log.log import Log
from strandline.stores.sqlite.schema import translated
from strandline.stores.sqlite.store import SqliteStore
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
    """Describe the log in this database; changes and creates nothing.

    InvalidError if there is no log. UnavailableError if other processes keep opening and
    closing it.
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
            # Another process may have opened or closed it at this very moment.
            failure = error
            clock.wait(threading.Event(), _PAUSE_S)
            continue
        # No lock excludes a writer here: only two equal results prove one consistent state.
        if seen == before:
            return seen
        before = seen
    raise failure or UnavailableError("this database changes all the time, try again", path=path)


def _is_in_use(io: Io, path: str) -> bool:
    """Whether a process has it open, or crashed while it had it open."""
    with translated(path):
        try:
            if io.stat(f"{path}-wal").size == 0:
                return False
        except (FileNotFoundError, NotADirectoryError):
            return False
        if not io.exists(f"{path}-shm"):
            raise InvalidError(
                "this database was copied while it was open, open the log once to repair it",
                path=path,
            )
    return True


def _look(io: Io, path: str, access: str) -> LogDescription:
    with Log(SqliteStore(path, mode=Mode.READ, io=io, access=access)) as log:
        return log.describe()
