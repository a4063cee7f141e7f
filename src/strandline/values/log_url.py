"""Parses the URL of a log, for every part of the package."""

import os
import re
from typing import Final, NamedTuple
from urllib.parse import unquote

from strandline.values.errors import InvalidError
from strandline.values.names import check_text

SCHEMES: Final = ("memory", "file", "sqlite")
#: The error for a path without a log.
NO_LOG: Final = "there is no log here, mode='write' or `strandline create` makes one"
_MEMORY = ":memory:"
#: Used as a path, it would create a log at `events?mode=ro`, opened for writing.
_OPTIONS = re.compile(r"\?\w+=")


class LogUrl(NamedTuple):
    """The kind of a log, and the path of its directory or database, unchanged."""

    scheme: str
    path: str


def parse_log_url(url: object) -> LogUrl:
    """Parse `url`; InvalidError with advice if it is not the URL of a log.

    In `file:PATH` and `sqlite:PATH` the path is literal, relative or absolute. With
    slashes for a host: `file:///PATH` is absolute, with %-escapes, as `Path.as_uri` writes
    it; `sqlite:///PATH` is relative and `sqlite:////PATH` absolute, as in SQLAlchemy.
    """
    text = check_text(url, "URL") if isinstance(url, str) else ""
    if ":" not in text:
        path = text or (os.fspath(url) if isinstance(url, os.PathLike) else "PATH")
        raise InvalidError(
            "a log is named memory:, file:PATH or sqlite:PATH,"
            f" write file:{path} for a directory and sqlite:{path} for a database",
            url=url,
        )
    scheme, _, location = text.partition(":")
    if scheme not in SCHEMES:
        raise InvalidError(
            "there is no such kind of log, use memory:, file:PATH, sqlite:PATH, postgresql://…, nats://…"
            " or kafka://…",
            url=url,
        )
    if scheme == "memory":
        if location:
            raise InvalidError("a memory: log has no name, use memory: alone", url=url)
        return LogUrl(scheme, "")
    path = _file_path(text, location) if scheme == "file" else _sqlite_path(text, location)
    return LogUrl(scheme, _checked(text, path))


def _file_path(url: str, location: str) -> str:
    if not location.startswith("//"):
        return location
    if not location.startswith("///"):
        raise InvalidError(
            "a log is on this machine and file:// is followed by a host,"
            " use file:PATH for a relative path or file:///PATH for an absolute one",
            url=url,
        )
    return unquote(_without_options(url, location[2:]), errors="strict")


def _sqlite_path(url: str, location: str) -> str:
    if location.startswith("//"):
        if not location.startswith("///"):
            raise InvalidError(
                "a database is on this machine and sqlite:// is followed by a host,"
                " use sqlite:PATH, sqlite:///RELATIVE or sqlite:////ABSOLUTE",
                url=url,
            )
        location = _without_options(url, location[3:])
    if location.startswith(_MEMORY):
        raise InvalidError("a log in memory is memory:, without SQLite", url=url)
    if location.startswith("file:"):
        raise InvalidError("SQLite's own URIs are not taken, use sqlite:PATH", url=url)
    return location


def _without_options(url: str, path: str) -> str:
    if "?" in path or "#" in path:
        raise InvalidError(
            "this URL has options, which a log does not take; name such a path without //", url=url
        )
    return path


def _checked(url: str, path: str) -> str:
    if _OPTIONS.search(url):
        raise InvalidError(
            "this URL has options, which a log does not take, pass mode and the like to open",
            url=url,
        )
    if not path.strip("/"):
        raise InvalidError(
            "the path is missing, use file:DIRECTORY or sqlite:DATABASE, or memory:", url=url
        )
    if path.startswith("~"):
        raise InvalidError(
            "~ is not expanded, pass os.path.expanduser of it; a name that begins so is ./~…",
            url=url,
        )
    if "\0" in path:
        raise InvalidError("no path holds a NUL character, leave it out", url=url)
    return path
