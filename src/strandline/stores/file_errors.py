"""Errors of stores on a disk: translated errors of the file system, and missing keys."""

import errno
import functools
from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from strandline.stores.disk_reserve import is_full
from strandline.values import CorruptError, FullError, UnavailableError

_REFUSALS: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


class _Directory(Protocol):
    path: str


class _Rooted(Protocol):
    @property
    def _root(self) -> _Directory: ...


S = TypeVar("S", bound=_Rooted)
P = ParamSpec("P")
R = TypeVar("R")


def unavailable(error: OSError, path: str) -> UnavailableError:
    """Return our error for `error`.

    `path` is the file in use, for an error that names none.
    """
    if is_full(error):
        return FullError(error.filename or path, error.strerror or str(error))
    return UnavailableError(
        "this process may not open more files, raise its limit (ulimit -n) and try again"
        if error.errno == errno.EMFILE
        else "the file system refused this, fix the cause named in reason and try again",
        path=error.filename or path,
        reason=error.strerror or str(error),
    )


def is_refused(error: OSError) -> bool:
    """Whether this process may not write there, and so nothing was written."""
    return error.errno in _REFUSALS


def translated(call: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Have a method of an object with a root raise UnavailableError instead of OSError."""

    @functools.wraps(call)
    def translating(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(self, *args, **kwargs)
        except OSError as error:
            raise unavailable(error, self._root.path) from error

    return translating


def missing_key(file: str, position: int = 0, **fields: object) -> CorruptError:
    """Return the error for a lost value of a topic's keyed area; it never reads as no value."""
    return CorruptError(
        "a value of the topic's keyed area, such as a consumer's cursors, is missing: restore it"
        " from a copy, or delete the consumer",
        file=file,
        position=position,
        **fields,
    )
