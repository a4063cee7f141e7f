"""Errors as problem documents of RFC 9457: the cause, and whether to retry."""

from math import ceil
from typing import Any, Final

import msgspec
from starlette.responses import Response

from strandline.values import (
    ClosedError,
    ConflictError,
    DivergedError,
    FullError,
    InvalidError,
    QuotaError,
    StrandlineError,
    TrimmedError,
    UnavailableError,
    UnknownError,
)

PROBLEM_TYPE: Final = "application/problem+json"
_RETRY_AFTER_S: Final = "1"
#: For errors that last until something is removed.
_RETRY_ROOM_S: Final = "60"
_TITLES: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    408: "RequestTimeout",
    409: "Conflict",
    410: "Gone",
    411: "LengthRequired",
    413: "ContentTooLarge",
    414: "UriTooLong",
    415: "UnsupportedMediaType",
    421: "MisdirectedRequest",
    429: "TooManyRequests",
    431: "HeadTooLarge",
    500: "InternalError",
    503: "Unavailable",
}
REQUEST_PROBLEMS: Final = {
    "BadRequest": "The request is no valid HTTP request of this interface: fix it.",
    "Unauthorized": "There is no valid token in the header Authorization: send `Bearer TOKEN`.",
    "Forbidden": "The token does not have the scope, or not the topic, that this needs.",
    "NotFound": "There is no such path: see /openapi.json.",
    "MethodNotAllowed": "The path does not support this method: see /openapi.json.",
    "NotAcceptable": "No format of the answer is allowed by the header Accept.",
    "RequestTimeout": "The request did not arrive in time: send it again, faster or in parts.",
    "Conflict": "The stream is in another state than the request assumes: read it again.",
    "Gone": "The stream was deleted, and is kept for its forks alone.",
    "LengthRequired": "The body needs a length, or chunks.",
    "ContentTooLarge": "The body is larger than the server takes: send it in parts.",
    "UriTooLong": "The URL is longer than the server takes: shorten the query.",
    "UnsupportedMediaType": "This endpoint does not accept the media type of the body.",
    "MisdirectedRequest": "The header Host or Origin is of another server than this one.",
    "TooManyRequests": "The token has as many streams open as it may: close one.",
    "HeadTooLarge": "The headers are larger than the server takes: send fewer.",
    "InternalError": "The server has failed: see its log.",
    "Unavailable": "The server cannot answer now: send it again.",
}
"""Explanations of errors before a request reaches a log, by the end of their type."""


class RequestError(Exception):
    """A request that is refused before it reaches the log."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers: Final = headers or {}


def problem_of(error: StrandlineError | RequestError) -> Response:
    """Return the response with the problem document of an error."""
    body = problem_body(error)
    if isinstance(error, RequestError):
        return _answer(error.status, body, error.headers)
    headers = {"retry-after": _retry_after(error)} if body["retryable"] else {}
    return _answer(body["status"], body, headers)


def problem_body(error: StrandlineError | RequestError) -> dict[str, Any]:
    """Return the members of the problem document of an error."""
    if isinstance(error, RequestError):
        name = _TITLES[error.status]
        is_retryable = error.status in (408, 429, 503)
        return _body(name, error.status, error.detail, is_retryable=is_retryable, stored="no")
    status = status_of(error)
    is_retryable = isinstance(error, UnavailableError | ClosedError)
    stored = "once-or-never" if isinstance(error, UnknownError) else "no"
    body = _body(type(error).__name__, status, str(error), is_retryable=is_retryable, stored=stored)
    fields = {name: _plain(value) for name, value in error.fields.items()}
    if status != 400:  # noqa: PLR2004 - There `end` is an argument of the request.
        body |= {name: fields[name] for name in ("oldest", "end", "diverged_at") if name in fields}
    body["fields"] = fields
    return body


def _retry_after(error: StrandlineError) -> str:
    """Return the whole seconds after which a caller may try again."""
    after_s = error.retry_after_s if isinstance(error, QuotaError) else None
    if isinstance(error, QuotaError | FullError) and after_s is None:
        return _RETRY_ROOM_S
    return _RETRY_AFTER_S if after_s is None else str(max(1, ceil(after_s)))


def status_of(error: StrandlineError) -> int:
    """Return the status of an error."""
    if isinstance(error, InvalidError):
        return _invalid_status(error)
    if isinstance(error, ConflictError) and "end" in error.fields:
        return 412
    if isinstance(error, QuotaError):
        return 507 if error.retry_after_s is None else 429
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def _invalid_status(error: InvalidError) -> int:
    if "near" in error.fields and {"topic", "consumer", "view"} & error.fields.keys():
        return 404
    if "mode" in error.fields:
        return 403
    # The error of a name that is too long has `value`; without it, the body is too large.
    if "bytes_max" in error.fields and "value" not in error.fields:
        return 413
    # Only the error for an offset beyond the end of a partition has both.
    return 416 if {"end", "offset"} <= error.fields.keys() else 400


_STATUSES: Final[tuple[tuple[type[StrandlineError], int], ...]] = (
    (ConflictError, 409),
    (FullError, 507),
    (UnavailableError, 503),
    (TrimmedError, 410),
    (DivergedError, 409),
    (ClosedError, 503),
)


def _body(
    name: str, status: int, detail: str, *, is_retryable: bool, stored: str
) -> dict[str, Any]:
    return {
        "type": f"/errors/{name}",
        "title": name,
        "status": status,
        "detail": detail,
        "retryable": is_retryable,
        "stored": stored,
    }


def _answer(status: int, body: dict[str, Any], headers: dict[str, str]) -> Response:
    return Response(msgspec.json.encode(body), status, headers, PROBLEM_TYPE)


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value)
