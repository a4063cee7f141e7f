"""By what the server, and its other sessions, know which process has which log open."""

import hashlib
import os
from typing import Final, NamedTuple

from strandline.log.claims import host_name

PREFIX: Final = "strandline "
_BYTES_MAX: Final = 63
_PARTS: Final = 4


class SessionName(NamedTuple):
    """What the `application_name` of a session says."""

    pid: int
    log: str
    """Of which schema it is, shortened; empty in sessions of earlier versions."""
    host: str


def session_name(schema: str) -> str:
    """Return the name of this process's sessions with the log in a schema."""
    whole = f"{PREFIX}{os.getpid()} {log_tag(schema)} {host_name()}"
    return whole.encode()[:_BYTES_MAX].decode(errors="ignore")


def log_tag(schema: str) -> str:
    """Return what tells the logs of a database apart."""
    return hashlib.sha256(schema.encode()).hexdigest()[:8]


def parse_session_name(text: str) -> SessionName | None:
    """Return what a name says; None if it is that of another program."""
    parts = text.split(" ", _PARTS - 1)
    if not text.startswith(PREFIX) or len(parts) < _PARTS - 1 or not parts[1].isdecimal():
        return None
    log = parts[2] if len(parts) == _PARTS else ""
    return SessionName(int(parts[1]), log, parts[-1])
