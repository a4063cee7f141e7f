"""Errors of psycopg and of the server as errors of a log."""

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
    """What an error of the server means to a caller."""

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
        "the server does not let this user in, check the user's name, password and rights",
    ),
    _Meaning(
        (errors.ReadOnlySqlTransaction,),
        InvalidError,
        "the server takes no writes, connect to the primary",
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
    _Meaning((psycopg.ProgrammingError,), InvalidError, "this is no URL of a PostgreSQL server"),
)
#: What a server says to a connection that it refuses; no code comes with it.
_REFUSALS: Final = (
    *("authentication failed", "does not exist", "no password supplied", "pg_hba"),
    *("invalid integer value", "invalid sslmode value", "invalid port"),
    *("certificate verify failed", "root certificate", "does not support SSL", "SSL error"),
    *("does not match host name", "certificate authentication"),
)


@contextlib.contextmanager
def translated(url: str) -> Iterator[None]:
    """Raise errors of `values` in place of the server's and the client's."""
    try:
        yield
    except (psycopg.Error, PoolTimeout) as error:
        raise translate(error, url) from error


def translate(error: Exception, url: str) -> StrandlineError:
    """Return the error of a log that stands for one of psycopg."""
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
    """Whether the server has said that a statement failed, so that nothing of it is stored.

    One that ends a session may come after the commit.
    """
    state = error.sqlstate
    return state is not None and not state.startswith(("57P", "08"))


def reason_of(error: Exception) -> str:
    """Return the first line of what an error says, which has the reason."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
