"""Names of server sessions, which show which process has which log open."""

import hashlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline.log.claims import host_name
from strandline.log.holders import LogHolder

if TYPE_CHECKING:
    from strandline.stores.postgres.database import Connection

PREFIX: Final = "strandline "
_BYTES_MAX: Final = 63
_PARTS: Final = 4
_SESSIONS: Final = """
    SELECT application_name, (extract(epoch FROM min(backend_start)) * 1000000)::bigint
    FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE 'strandline %'
    GROUP BY application_name ORDER BY 2, 1"""


class SessionName(NamedTuple):
    """The parts of a session's `application_name`."""

    pid: int
    log: str
    """A hash of the schema; empty in sessions of earlier versions."""
    host: str


def session_name(schema: str) -> str:
    """Return the name for this process's sessions with the log in a schema."""
    whole = f"{PREFIX}{os.getpid()} {log_tag(schema)} {host_name()}"
    return whole.encode()[:_BYTES_MAX].decode(errors="ignore")


def log_tag(schema: str) -> str:
    """Return a short hash that distinguishes the logs of a database."""
    return hashlib.sha256(schema.encode()).hexdigest()[:8]


def parse_session_name(text: str) -> SessionName | None:
    """Parse a session's name; None for another program's session."""
    parts = text.split(" ", _PARTS - 1)
    if not text.startswith(PREFIX) or len(parts) < _PARTS - 1 or not parts[1].isdecimal():
        return None
    log = parts[2] if len(parts) == _PARTS else ""
    return SessionName(int(parts[1]), log, parts[-1])


def sessions(connection: "Connection", schema: str) -> Sequence[LogHolder]:
    """Return each process that has the log in a schema open, with its oldest session's start."""
    found = []
    for name, since_us in connection.execute(_SESSIONS):
        named = parse_session_name(str(name))
        if named is not None and named.log in {log_tag(schema), ""}:
            found.append(
                LogHolder(
                    role="session",
                    pid=named.pid,
                    host=named.host,
                    since_us=since_us,
                    is_live=True,
                )
            )
    return found
