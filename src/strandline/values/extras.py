"""How to install a missing part of Strandline, which is not on a package index."""

import contextlib
from collections.abc import Iterator

from strandline.values.errors import InvalidError


def install_command(extra: str) -> str:
    """Return the command that installs an extra from a checkout."""
    return f"pip install 'path/to/strandline[{extra}]'"


def missing(library: str, extra: str) -> str:
    """Return the message for a missing library of an extra."""
    return (
        f"{library} is missing, install Strandline from its checkout with the extra {extra}: "
        f"{install_command(extra)}"
    )


@contextlib.contextmanager
def needing(library: str, extra: str) -> Iterator[None]:
    """Turn a failing import into InvalidError, with the extra that installs the library."""
    try:
        yield
    except ImportError as error:
        raise InvalidError(missing(library, extra)) from error


@contextlib.contextmanager
def needing_module(what: str, extra: str) -> Iterator[None]:
    """Do the same for several libraries, and name the missing one."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InvalidError(missing(what, extra), missing=error.name) from error
