"""The OpenAPI document, made from the endpoints."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

import strandline
from strandline.server.endpoint import Endpoint
from strandline.server.problems import PROBLEM_TYPE

_PARTS: Final = re.compile(r"\{(\w+)\}")
_REF: Final = "#/components/schemas/{name}"
_HEADERS: Final = {
    "append_records": ("Idempotency-Key", "Producer-Id", "Producer-Seq"),
    "tail_topic": ("Last-Event-ID",),
    "read_records": ("If-None-Match",),
    "read_stream": ("If-None-Match",),
    "put_stream": (
        "Stream-TTL",
        "Stream-Expires-At",
        "Stream-Closed",
        "Stream-Forked-From",
        "Stream-Fork-Offset",
        "Stream-Fork-Sub-Offset",
    ),
    "append_to_stream": (
        "Producer-Id",
        "Producer-Epoch",
        "Producer-Seq",
        "Stream-Seq",
        "Stream-Closed",
    ),
}
_PROBLEMS: Final = {
    400: "The request cannot be answered as it is.",
    401: "There is no valid token.",
    403: "The token does not allow this.",
    404: "There is no such topic, partition or consumer, or none that the token sees.",
    409: "Another process wrote first, or records that were passed are lost.",
    410: "These records were trimmed; `oldest` is the oldest one kept.",
    412: "The partition does not end at the expected offset, but at `end`.",
    413: "The body or record is too large.",
    415: "The topic does not accept the media type of the body.",
    416: "This lies beyond the end of the partition.",
    421: "The header Host or Origin is of another server.",
    429: "There are too many streams or requests, or a quota by time is used up: see Retry-After.",
    503: "Temporarily unavailable: send it again.",
    507: "The disk is full, or a quota is used up: something has to be removed first.",
}
_PARAMETERS: Final = {
    "topic": {"type": "string", "minLength": 1, "maxLength": 200},
    "consumer": {"type": "string", "minLength": 1, "maxLength": 200},
    "partition": {"type": "integer", "minimum": 0, "maximum": 4095},
    "name": {"type": "string"},
    "view": {"type": "string", "minLength": 1, "maxLength": 200},
    "key": {"type": "string", "minLength": 1, "maxLength": 200},
    "stream": {"type": "string", "minLength": 1, "maxLength": 200},
}


class ShownProblem(msgspec.Struct):
    """What is wrong, as RFC 9457 has it."""

    type: str
    title: str
    status: int
    detail: str
    retryable: bool
    stored: str
    oldest: int | None = None
    end: int | None = None
    diverged_at: int | None = None
    fields: dict[str, Any] = {}


def openapi_document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Return the document of these endpoints."""
    each = [one for one in endpoints if one.path != "/openapi.json"]
    types = _types(each)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    known = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in each:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, known, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Strandline",
            "version": strandline.__version__,
            "summary": "A durable, replayable event log",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _types(endpoints: Iterable[Endpoint]) -> list[Any]:
    found: dict[str, Any] = {repr(ShownProblem): ShownProblem}
    for one in endpoints:
        bodies = (*one.body.values(), *one.optional_body.values())
        kinds = [*bodies, *one.answers.values(), *([one.query] if one.query else [])]
        each = [part for kind in kinds for part in (kind if isinstance(kind, tuple) else (kind,))]
        found |= {repr(kind): kind for kind in each if kind not in (bytes, str)}
    return list(found.values())


def _operation(
    one: Endpoint, known: Mapping[str, Any], components: Mapping[str, Any]
) -> dict[str, Any]:
    summary, _, more = one.summary.partition("\n\n")
    operation: dict[str, Any] = {
        "operationId": one.name,
        "summary": " ".join(summary.split()),
        "parameters": [*_path_parameters(one), *_query_parameters(one, components), *_headers(one)],
        "responses": _responses(one, known),
        "security": [] if one.scope is None else [{"token": [str(one.scope)]}],
    }
    if more:
        operation["description"] = " ".join(more.split())
    if one.body:
        operation["requestBody"] = {"required": True, "content": _content(one.body, known)}
    if one.optional_body:
        content = _content(one.optional_body, known)
        operation["requestBody"] = {"required": False, "content": content}
    return operation


def _path_parameters(one: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _PARAMETERS[name]}
        for name in _PARTS.findall(one.path)
    ]


def _query_parameters(one: Endpoint, components: Mapping[str, Any]) -> list[dict[str, Any]]:
    if one.query is None:
        return []
    schema = components[one.query.__name__]
    needed = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": _without_null(each)}
        for name, each in schema["properties"].items()
    ]


def _without_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a query parameter: one that is left out is not null."""
    kinds = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    rest = {name: each for name, each in schema.items() if name not in ("anyOf", "default")}
    if "enum" in rest:
        rest["enum"] = [each for each in rest["enum"] if each is not None]
    return (
        {**rest, **kinds[0]} if len(kinds) == 1 else {**rest, **({"anyOf": kinds} if kinds else {})}
    )


def _headers(one: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}
        for name in _HEADERS.get(one.name, ())
    ]


def _responses(one: Endpoint, known: Mapping[str, Any]) -> dict[str, Any]:
    problem = {PROBLEM_TYPE: {"schema": known[repr(ShownProblem)]}}
    good: dict[str, Any] = {"description": "Done."}
    if one.answers:
        good["content"] = _content(one.answers, known)
    found: dict[str, Any] = {str(one.status): good}
    for status, text in one.statuses.items():
        found[str(status)] = {**good, "description": text}
        if status == 304:  # noqa: PLR2004 - Not modified: it has no body.
            found[str(status)].pop("content", None)
    for status, text in _PROBLEMS.items():
        found[str(status)] = {"description": text, "content": problem}
    found["default"] = {"description": "Any other error.", "content": problem}
    return found


def _content(forms: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    return {media: {"schema": _form(media, kind, known)} for media, kind in forms.items()}


def _form(media: str, kind: Any, known: Mapping[str, Any]) -> Any:
    if kind is bytes:
        return {"type": "string", "format": "binary", "contentMediaType": media}
    if kind is str:
        return {"type": "string"}
    if isinstance(kind, tuple):
        return {"anyOf": [known[repr(each)] for each in kind]}
    return known[repr(kind)]
