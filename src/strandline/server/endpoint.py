"""An endpoint: its route, and its description in the OpenAPI document."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import msgspec
from starlette.responses import Response

from strandline.server.call import Call
from strandline.server.tokens import TokenScope

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
ARROW: Final = "application/vnd.apache.arrow.stream"
OCTETS: Final = "application/octet-stream"
SSE: Final = "text/event-stream"

Method: TypeAlias = Literal["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"]
Answering: TypeAlias = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One method of one path."""

    method: Method
    path: str
    scope: TokenScope | None
    """The scope that a caller's token needs; None if no token is needed."""
    answer: Answering
    summary: str
    query: type[msgspec.Struct] | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    """The types of a body, by media type: a type, or a tuple of types."""
    optional_body: Mapping[str, Any] = field(default_factory=dict)
    """The same, for a body that may be missing."""
    answers: Mapping[str, Any] = field(default_factory=dict)
    """The types of a successful answer, by media type."""
    status: int = 200
    statuses: Mapping[int, str] = field(default_factory=dict)
    """Further statuses that are not errors, with their descriptions."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of every answer, also of errors."""
    is_read: bool = False
    """Whether it only reads, though its method is POST."""

    @property
    def repeats(self) -> bool:
        """Whether a request may be answered twice."""
        return self.is_read or self.method in ("GET", "HEAD")

    @property
    def name(self) -> str:
        """Its operationId in the OpenAPI document."""
        return self.answer.__name__


def endpoint(
    method: Method, path: str, scope: TokenScope | None, **more: Any
) -> Callable[[Answering], Endpoint]:
    """Return a decorator that makes an endpoint of a function; its docstring is the summary."""

    def make(answer: Answering) -> Endpoint:
        summary = (answer.__doc__ or "").strip()
        return Endpoint(
            method=method, path=path, scope=scope, answer=answer, summary=summary, **more
        )

    return make


def json_answer(value: object, status: int = 200) -> Response:
    """Return an answer in JSON."""
    return Response(msgspec.json.encode(value), status, media_type=JSON)
