"""Errors of stores on a disk: those of the file system, in our words, and of what is missing."""

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
    """Return the error to raise from `error`.

    `path` is what was being used, for where the error names no file.
    """
    if is_full(error):
        return FullError(error.filename or path, error.strerror or str(error))
    return UnavailableError(
        "the file system refused this, fix what the reason names and try again",
        path=error.filename or path,
        reason=error.strerror or str(error),
    )


def is_refused(error: OSError) -> bool:
    """Whether this process may not write there: nothing was written then."""
    return error.errno in _REFUSALS


def translated(call: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Have a method of what has a root raise UnavailableError in place of OSError."""

    @functools.wraps(call)
    def translating(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(self, *args, **kwargs)
        except OSError as error:
            raise unavailable(error, self._root.path) from error

    return translating


def missing_key(file: str, position: int = 0, **fields: object) -> CorruptError:
    """Return the error for what a topic keeps by key, and has lost: never taken for no value."""
    return CorruptError(
        "what a topic keeps by key, as the cursors of its consumers, is missing: restore it from"
        " a copy, or delete the consumer",
        file=file,
        position=position,
        **fields,
    )
