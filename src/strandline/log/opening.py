"""Which log a URL means, and the environment's part in it."""

import os

from strandline.clock import Clock
from strandline.log.files import FileLog
from strandline.log.memory import MemoryLog
from strandline.log.protocol import Log
from strandline.log.sqlite import SqliteLog
from strandline.values import RECORD_BYTES_MAX, InvalidError, Mode

URL_VARIABLE = "STRANDLINE_URL"
STATE_DIR_VARIABLE = "STRANDLINE_STATE_DIR"

_STATE_DIR = ".strandline"


def open_log(
    url: str | None = None,
    *,
    mode: str = Mode.WRITE,
    clock: Clock | None = None,
    auto_create: bool = False,
    record_bytes_max: int = RECORD_BYTES_MAX,
    exclusive: bool = False,
    take_over: bool = False,
    compression: str | None = None,
) -> Log:
    """Open the log that `url` names; the caller closes it.

    `memory:` is a new log that lives in what is returned; `sqlite:<path>` is the log
    in that database, which `write` creates where it is missing. Without a URL it is
    STRANDLINE_URL, and without that `file:` in STRANDLINE_STATE_DIR, or in
    `.strandline`. `mode` is `write`, `consume` or `read`. With `auto_create`,
    appending to an unknown topic creates it. Raises InvalidError for whatever is
    none of these; no bad value is replaced by a default.
    """
    chosen = default_url() if url is None else url
    scheme, rest = _split(chosen)
    parsed = Mode.parse(mode)
    if scheme == "memory":
        _check_memory(chosen, rest, parsed)
        return MemoryLog(clock=clock, auto_create=auto_create, record_bytes_max=record_bytes_max)
    if scheme == "sqlite":
        if not rest:
            raise InvalidError("a sqlite: log needs the path of its database", url=chosen)
        return SqliteLog(
            rest,
            mode=parsed,
            clock=clock,
            auto_create=auto_create,
            record_bytes_max=record_bytes_max,
        )
    if scheme == "file":
        if not rest:
            raise InvalidError("a file: log needs the path of its directory", url=chosen)
        return FileLog(
            rest,
            mode=parsed,
            clock=clock,
            auto_create=auto_create,
            record_bytes_max=record_bytes_max,
            exclusive=exclusive,
            take_over=take_over,
            compression=compression,
        )
    raise InvalidError("there is no such kind of log, use memory:, file: or sqlite:", url=chosen)


def _check_memory(url: str, rest: str, mode: Mode) -> None:
    if rest:
        raise InvalidError("a memory: log has no name, use memory: alone", url=url)
    if mode is not Mode.WRITE:
        raise InvalidError(
            "a memory: log is new and nobody else writes it, open it for writing", mode=str(mode)
        )


def default_url() -> str:
    """Return the URL that the environment names; InvalidError for an empty variable."""
    url = os.environ.get(URL_VARIABLE)
    if url is not None:
        return _not_blank(URL_VARIABLE, url)
    state_dir = os.environ.get(STATE_DIR_VARIABLE, _STATE_DIR)
    return f"file:{_not_blank(STATE_DIR_VARIABLE, state_dir)}/events"


def _split(url: object) -> tuple[str, str]:
    if not isinstance(url, str) or ":" not in url:
        raise InvalidError("a log's URL begins with memory:, file: or sqlite:", url=url)
    scheme, _, rest = url.partition(":")
    return scheme, rest


def _not_blank(variable: str, value: str) -> str:
    if not value.strip():
        raise InvalidError(f"{variable} is blank, unset it or give it a value", value=value)
    return value
