"""Checks what a server has or lacks for a log, and what to do about it."""

from collections.abc import Iterator
from typing import Any, Final

import psycopg

from strandline.log.examined import Examined
from strandline.stores.postgres.database import (
    CONNECTIONS_MAX,
    VERSION_MIN,
    Connection,
    public_url,
    split_schema,
)
from strandline.stores.postgres.errors import translated
from strandline.values import StrandlineError

_CONNECT_S: Final = 10
_SETTINGS: Final = (
    *("fsync", "full_page_writes", "server_encoding", "data_checksums", "max_connections"),
    *("idle_session_timeout", "default_transaction_read_only"),
)
_RIGHTS: Final = """
    SELECT current_user, pg_is_in_recovery(), to_regclass(%s)::text,
        has_database_privilege(current_database(), 'CREATE')"""


def examine(url: str) -> Iterator[Examined]:
    """Yield findings about the server of a URL. Changes nothing there."""
    try:
        plain, schema = split_schema(url, None)
        shown = public_url(plain, schema)
        with (
            translated(shown),
            _connect(plain) as connection,
        ):
            yield Examined("server", "ok", shown)
            yield from _looked_at(connection, schema)
    except StrandlineError as error:
        yield Examined("server", "failed", "no connection", str(error))


def _connect(conninfo: str) -> Connection:
    # Behind a pooler the next statement may run in another session.
    return psycopg.connect(
        conninfo, connect_timeout=_CONNECT_S, autocommit=True, prepare_threshold=None
    )


def _looked_at(connection: Connection, schema: str) -> Iterator[Examined]:
    version = connection.info.server_version
    yield _one(
        "version",
        f"{version // 10_000}.{version % 10_000}",
        "failed" if version < VERSION_MIN else "",
        "use PostgreSQL 14 or newer",
    )
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    if row is not None and row[0] != connection.info.backend_pid:
        found_it = "in between: readers poll, and a claim of a consumer keeps one of its sessions"
        yield Examined("pooler", "ok", found_it)
    found: dict[str, Any] = {}
    for name in _SETTINGS:
        row = connection.execute("SELECT current_setting(%s, true)", (name,)).fetchone()
        found[name] = row[0] if row else None
    yield _durability(found)
    encoding = found["server_encoding"]
    is_wrong = "failed" if encoding != "UTF8" else ""
    yield _one("encoding", str(encoding), is_wrong, "use a database with UTF8")
    checksums = "" if found["data_checksums"] == "on" else "warning"
    advice = "damaged pages go unnoticed: pg_checksums --enable"
    yield _one("checksums", str(found["data_checksums"]), checksums, advice)
    few = "warning" if int(found["max_connections"]) < 2 * CONNECTIONS_MAX else ""
    advice = f"each open log uses up to {CONNECTIONS_MAX} and two more: raise max_connections"
    yield _one("connections", f"at most {found['max_connections']}", few, advice)
    idle = found["idle_session_timeout"] or "0"
    ends = "" if idle in ("0", "0ms") else "warning"
    yield _one("idle sessions", f"ended after {idle}" if ends else "kept", ends, "claims end, too")
    yield from _rights(connection, schema)


def _durability(found: dict[str, Any]) -> Examined:
    settings = f"fsync={found['fsync']}, full_page_writes={found['full_page_writes']}"
    if found["fsync"] == "on" and found["full_page_writes"] == "on":
        return Examined("durability", "ok", f"durable: {settings}")
    advice = "a loss of power can lose commits: set both to on"
    return Examined("durability", "warning", f"written at most: {settings}", advice)


def _rights(connection: Connection, schema: str) -> Iterator[Examined]:
    row = connection.execute(_RIGHTS, (f"{schema}.log",)).fetchone()
    assert row is not None
    user, is_standby, log, may_create = row
    if is_standby:
        yield Examined("role", "warning", "standby", "it takes no writes: connect to the primary")
    if log is not None:
        yield Examined("log", "ok", f"in the schema {schema}")
    elif may_create:
        yield Examined("log", "ok", f"none yet in the schema {schema}, {user} may create it")
    else:
        advice = f"GRANT CREATE ON DATABASE … TO {user}, or let another user create the log"
        yield Examined("log", "failed", f"none in the schema {schema}", advice)


def _one(check: str, found: str, verdict: str, advice: str) -> Examined:
    return Examined(check, verdict or "ok", found, advice if verdict else "")
