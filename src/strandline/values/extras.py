"""How to get a part of Strandline that is not installed: it is on no package index."""

import contextlib
from collections.abc import Iterator

from strandline.values.errors import InvalidError


def install_command(extra: str) -> str:
    """Return what installs an extra, from a checkout."""
    return f"pip install 'path/to/strandline[{extra}]'"


def missing(library: str, extra: str) -> str:
    """Return what an error says when a library of an extra is missing."""
    return (
        f"{library} is missing, install Strandline from its checkout with the extra {extra}: "
        f"{install_command(extra)}"
    )


@contextlib.contextmanager
def needing(library: str, extra: str) -> Iterator[None]:
    """Have an import that fails raise InvalidError, with the extra that installs the library."""
    try:
        yield
    except ImportError as error:
        raise InvalidError(missing(library, extra)) from error


@contextlib.contextmanager
def needing_module(what: str, extra: str) -> Iterator[None]:
    """Do the same where several libraries may be missing, and name the one that is."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InvalidError(missing(what, extra), missing=error.name) from error
