"""Which log a URL means, and the environment's part in it."""

import os
from typing import Any, NamedTuple, Protocol

from strandline.clock import Clock
from strandline.log.memory import MemoryLog
from strandline.stores.files import FileLog
from strandline.stores.sqlite import SqliteLog, describe_sqlite
from strandline.subscriptions import Broker, BrokeredLog
from strandline.tiering import TieredLog
from strandline.typed import ScopedLog
from strandline.values import RECORD_BYTES_MAX, InvalidError, LogDescription, Mode
from strandline.values.arguments import check_flag, check_path
from strandline.values.names import check_text

URL_VARIABLE = "STRANDLINE_URL"
STATE_DIR_VARIABLE = "STRANDLINE_STATE_DIR"

_STATE_DIR = ".strandline"


class OpenedLog(TieredLog, ScopedLog, Protocol):
    """A log as it is opened: with subscriptions, scopes, and with a tier if it has one."""


class SubscribableMemoryLog(TieredLog, MemoryLog, ScopedLog):  # type: ignore[misc] # Reads give any Batches.
    """A memory: log, as it is opened."""


class SubscribableSqliteLog(TieredLog, SqliteLog, ScopedLog):  # type: ignore[misc] # Reads give any Batches.
    """A sqlite: log, as it is opened."""


class SubscribableFileLog(TieredLog, FileLog, ScopedLog):  # type: ignore[misc] # Reads give any Batches.
    """A file: log, as it is opened."""


class BrokeredMemoryLog(BrokeredLog, SubscribableMemoryLog):  # type: ignore[misc] # As above.
    """A memory: log, as it is opened with a broker."""


class BrokeredSqliteLog(BrokeredLog, SubscribableSqliteLog):  # type: ignore[misc] # As above.
    """A sqlite: log, as it is opened with a broker."""


class BrokeredFileLog(BrokeredLog, SubscribableFileLog):  # type: ignore[misc] # As above.
    """A file: log, as it is opened with a broker."""


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
    broker: Broker | None = None,
) -> ScopedLog:
    """Open the log that `url` names; the caller closes it.

    `memory:` is a new log that lives in what is returned; `file:<path>` is the log in
    that directory, and `sqlite:<path>` the one in that database, which `write` creates
    where it is missing. Without a URL it is STRANDLINE_URL, and without that `file:` in
    STRANDLINE_STATE_DIR, or in `.strandline`. `mode` is `write`, `consume` or `read`.
    With `auto_create`, appending to an unknown topic creates it. A `broker` carries
    wake-ups and lists subscriptions, see `Broker`; its maker closes it. `exclusive`,
    `take_over` and `compression` are for `file:` alone, see `FileLog`. Raises
    InvalidError for whatever is none of these; no bad value is replaced by a default.
    """
    scheme, location = _parse(url)
    for name, flag in (("exclusive", exclusive), ("take_over", take_over)):
        check_flag(name, flag)
    wanted = {"exclusive": exclusive, "take_over": take_over, "compression": compression}
    special = {
        name: value for name, value in wanted.items() if value is not None and value is not False
    }
    if special and scheme is not _SCHEMES["file"]:
        raise InvalidError("these are options of file: logs alone", options=sorted(special))
    log = scheme.opened(
        location,
        mode=Mode.parse(mode),
        clock=clock,
        auto_create=check_flag("auto_create", auto_create),
        record_bytes_max=record_bytes_max,
        is_brokered=broker is not None,
        **special,
    )
    if clock is not None:
        log.clock = clock
    if broker is not None:
        assert isinstance(log, _BROKERED)
        log.use_broker(broker)
    return log


def describe(url: str | None = None) -> LogDescription:
    """Return what the log that `url` names is and holds; without a URL as `open_log`.

    Nothing is created, and no byte of the log changes. InvalidError if there is no log,
    and for `memory:`, which nobody but its opener can reach.
    """
    scheme, location = _parse(url)
    return scheme.described(location)


def default_url() -> str:
    """Return the URL that the environment names; InvalidError for an empty variable."""
    url = os.environ.get(URL_VARIABLE)
    if url is not None:
        return _not_blank(URL_VARIABLE, url)
    state_dir = os.environ.get(STATE_DIR_VARIABLE, _STATE_DIR)
    return f"file:{_not_blank(STATE_DIR_VARIABLE, state_dir)}/events"


class _Open(Protocol):
    def __call__(
        self,
        location: str,
        *,
        mode: Mode,
        clock: Clock | None,
        auto_create: bool,
        record_bytes_max: int,
        is_brokered: bool,
        **special: Any,
    ) -> OpenedLog: ...


class _Describe(Protocol):
    def __call__(self, location: str) -> LogDescription: ...


class _Scheme(NamedTuple):
    """What can be done with the rest of a URL."""

    opened: _Open
    described: _Describe


def _open_memory(
    location: str,
    *,
    mode: Mode,
    clock: Clock | None,
    auto_create: bool,
    record_bytes_max: int,
    is_brokered: bool,
    **_: Any,
) -> OpenedLog:
    if location:
        raise InvalidError("a memory: log has no name, use memory: alone", url=f"memory:{location}")
    if mode is not Mode.WRITE:
        raise InvalidError(
            "a memory: log is new and nobody else writes it, open it for writing", mode=str(mode)
        )
    kind = BrokeredMemoryLog if is_brokered else SubscribableMemoryLog
    return kind(clock=clock, auto_create=auto_create, record_bytes_max=record_bytes_max)


def _describe_memory(location: str) -> LogDescription:
    raise InvalidError(
        "a memory: log is known to its opener alone, call its describe()", url=f"memory:{location}"
    )


def _open_sqlite(
    location: str,
    *,
    mode: Mode,
    clock: Clock | None,
    auto_create: bool,
    record_bytes_max: int,
    is_brokered: bool,
    **_: Any,
) -> OpenedLog:
    kind = BrokeredSqliteLog if is_brokered else SubscribableSqliteLog
    return kind(
        _database(location),
        mode=mode,
        clock=clock,
        auto_create=auto_create,
        record_bytes_max=record_bytes_max,
    )


def _open_file(location: str, *, is_brokered: bool, **options: Any) -> OpenedLog:
    kind = BrokeredFileLog if is_brokered else SubscribableFileLog
    return kind(_directory(location), **options)


def _describe_file(location: str) -> LogDescription:
    with FileLog(_directory(location), mode=Mode.READ) as log:
        return log.describe()


def _directory(location: str) -> str:
    if not location:
        raise InvalidError("a file: log needs the path of its directory", url="file:")
    return location


def _describe_sqlite(location: str) -> LogDescription:
    return describe_sqlite(_database(location))


def _database(location: str) -> str:
    if not location:
        raise InvalidError("a sqlite: log needs the path of its database", url="sqlite:")
    return location


_BROKERED = BrokeredMemoryLog, BrokeredSqliteLog, BrokeredFileLog

_SCHEMES = {
    "memory": _Scheme(_open_memory, _describe_memory),
    "file": _Scheme(_open_file, _describe_file),
    "sqlite": _Scheme(_open_sqlite, _describe_sqlite),
}


def _parse(url: object) -> tuple[_Scheme, str]:
    chosen = default_url() if url is None else url
    name, colon, location = check_text(chosen, "url").partition(":")
    if not colon:
        raise InvalidError("a log is named memory:, file:PATH or sqlite:PATH", url=chosen)
    if name not in _SCHEMES:
        raise InvalidError(
            "there is no such kind of log, use memory:, file:PATH or sqlite:PATH", url=chosen
        )
    return _SCHEMES[name], check_path("url", location) if location else location


def _not_blank(variable: str, value: str) -> str:
    if not value.strip():
        raise InvalidError(f"{variable} is blank, unset it or give it a value", value=value)
    return value
