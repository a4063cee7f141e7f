"""Translates a server's errors into errors of a log."""

from typing import Any

import msgspec

from strandline.values import (
    ClosedError,
    DroppedError,
    InvalidError,
    StrandlineError,
    UnavailableError,
    UnknownError,
)
from strandline.values import errors as tree
from strandline.values.errors import CorruptError, FailedError, QuotaError

_REFUSED = (401, 403, 421)
_NO_SUCH_CALL = (404, 405, 501)
_REQUEST_FAILED = 400
_SERVER_FAILED = 500
_QUOTA = ("quota", "used", "limit", "retry_after_s")


class WireProblem(msgspec.Struct):
    """A problem document, as far as a client needs it."""

    title: str = ""
    status: int = 500
    detail: str = ""
    stored: str = "no"
    fields: dict[str, Any] = {}


class TransportError(Exception):
    """No answer, or one that asks to retry. `was_sent`: the call may have been executed."""

    def __init__(self, reason: str, *, was_sent: bool) -> None:
        super().__init__(reason)
        self.was_sent = was_sent


def problem_in(body: bytes, status: int) -> WireProblem:
    """Return an answer's problem document; one made of its status if it has none."""
    try:
        return msgspec.json.decode(body, type=WireProblem)
    except (msgspec.MsgspecError, ValueError):
        return WireProblem("", status, body[:200].decode(errors="replace"))


def error_of(problem: WireProblem, url: str) -> StrandlineError:
    """Return the error that the server's log raised."""
    kind = getattr(tree, problem.title, None)
    if not (isinstance(kind, type) and issubclass(kind, StrandlineError)):
        return _other(problem, url)
    error = kind.__new__(kind)
    error.args = (problem.detail,)
    error.__dict__.update(_defaults(kind), **_attributes(problem))
    error.__dict__["fields"] = problem.fields
    if issubclass(kind, FailedError):
        error.__cause__ = RuntimeError(str(problem.fields.get("cause", problem.detail)))
    return error


def is_dropped(problem: WireProblem) -> bool:
    """Whether the topic of a call was dropped."""
    return problem.title == DroppedError.__name__


def unknown(reason: str) -> UnknownError:
    """Return the error for an append without an answer."""
    return UnknownError(ConnectionError(reason))


def _other(problem: WireProblem, url: str) -> StrandlineError:
    if problem.status in _REFUSED:
        return InvalidError(f"the server refused this: {problem.detail}", status=problem.status)
    if problem.status < _REQUEST_FAILED or problem.status in _NO_SUCH_CALL:
        return InvalidError(
            "no log is served at this URL, check its host, port and path",
            url=url,
            status=problem.status,
        )
    if problem.status >= _SERVER_FAILED:
        return FailedError(RuntimeError(problem.detail or f"status {problem.status}"))
    return InvalidError(problem.detail or "the server refused this", status=problem.status)


def _defaults(kind: type[StrandlineError]) -> dict[str, Any]:
    if issubclass(kind, UnavailableError):
        return {"write": None}
    return {"file": None, "position": None} if issubclass(kind, CorruptError) else {}


def _attributes(problem: WireProblem) -> dict[str, Any]:
    if problem.title == QuotaError.__name__:
        return {name: problem.fields.get(name) for name in _QUOTA}
    names = ("oldest", "diverged_at", "partition", "epoch", "file", "position")
    return {name: problem.fields[name] for name in names if name in problem.fields}


def is_of_proxy(problem: WireProblem) -> bool:
    """Whether a proxy that cannot reach the server answered; the call may have been executed."""
    return not problem.title and problem.status in (502, 504)


def is_ending(problem: WireProblem) -> bool:
    """Whether a server is stopping or overloaded, so that another try may succeed."""
    return problem.status in (429, 503) and problem.title in (
        "Unavailable",
        "TooManyRequests",
        ClosedError.__name__,
        "",
    )
