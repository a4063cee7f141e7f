"""Translates errors of psycopg and the server into errors of a log."""

import contextlib
from collections.abc import Iterator
from typing import Final, NamedTuple

import psycopg
from psycopg import errors
from psycopg_pool import PoolTimeout

from strandline.values import (
    ConflictError,
    InvalidError,
    StrandlineError,
    UnavailableError,
)


class _Meaning(NamedTuple):
    """Our error for some of the server's errors."""

    kinds: tuple[type[psycopg.Error], ...]
    error: type[StrandlineError]
    advice: str


_MEANINGS: Final = (
    _Meaning(
        (errors.LockNotAvailable, errors.QueryCanceled),
        UnavailableError,
        "the partition could not be locked in time, try again",
    ),
    _Meaning(
        (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation),
        ConflictError,
        "another transaction changed the same rows, try again",
    ),
    _Meaning(
        (
            errors.InsufficientPrivilege,
            errors.InvalidAuthorizationSpecification,
            errors.InvalidPassword,
        ),
        InvalidError,
        "the server refuses this user, check the user's name, password and rights",
    ),
    _Meaning(
        (errors.ReadOnlySqlTransaction,),
        InvalidError,
        "the server is read-only, connect to the primary",
    ),
    _Meaning(
        (errors.InvalidCatalogName, errors.InvalidSchemaName, errors.UndefinedTable),
        InvalidError,
        "there is no such database or no log in it, check the URL and the schema",
    ),
    _Meaning(
        (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError),
        UnavailableError,
        "the server did not answer, check that it runs and try again",
    ),
    _Meaning((psycopg.ProgrammingError,), InvalidError, "this is not a URL of a PostgreSQL server"),
)
#: Parts of messages with which a server refuses a connection; these have no code.
_REFUSALS: Final = (
    *("authentication failed", "does not exist", "no password supplied", "pg_hba"),
    *("invalid integer value", "invalid sslmode value", "invalid port"),
    *("certificate verify failed", "root certificate", "does not support SSL", "SSL error"),
    *("does not match host name", "certificate authentication"),
)


@contextlib.contextmanager
def translated(url: str) -> Iterator[None]:
    """Translate errors of the server and of the client."""
    try:
        yield
    except (psycopg.Error, PoolTimeout) as error:
        raise translate(error, url) from error


def translate(error: Exception, url: str) -> StrandlineError:
    """Return our error for one of psycopg's."""
    reason = reason_of(error)
    if getattr(error, "sqlstate", None) is None and any(each in str(error) for each in _REFUSALS):
        return InvalidError(
            "the server refuses this connection, check the database, user, password and TLS",
            url=url,
            reason=reason,
        )
    for kinds, kind, advice in _MEANINGS:
        if isinstance(error, kinds):
            return kind(advice, url=url, reason=reason)
    return UnavailableError("the server failed, try again", url=url, reason=reason)


def is_undone(error: psycopg.Error) -> bool:
    """Whether a statement failed on the server, so that nothing of it is stored.

    An error that ends the session may come after the commit.
    """
    state = error.sqlstate
    return state is not None and not state.startswith(("57P", "08"))


def reason_of(error: Exception) -> str:
    """Return the first line of an error's message, which has the reason."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
