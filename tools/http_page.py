"""Writes docs/reference/http.md from the OpenAPI document of the server.

    python -m tools.http_page

A test compares the page with what this makes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from strandline.server import ENDPOINTS
from strandline.server.openapi import openapi_document

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "http.md"

_INTRODUCTION = """\
# The HTTP interface

`strandline serve` has these endpoints; every server has them at `/openapi.json`, as an OpenAPI \
3.1 document. This page is made by `python -m tools.http_page`. How to start a server: \
[Serve a log](../howto/serve-a-log.md). How to call it: \
[Use it from another language](../howto/use-it-from-another-language.md).

A token is sent as `Authorization: Bearer TOKEN`, and each endpoint names the scope that it needs. \
Errors are problem documents of RFC 9457 (`application/problem+json`) with `type` (a path of the \
server, which explains it), `title`, `status`, `detail`, `retryable`, `stored` (`no` or \
`once-or-never`), `fields`, and where they apply `oldest`, `end` and `diverged_at`.

Records are JSON as `strandline read --json` shows them. Names in paths are percent-encoded.
"""

_REMOTE = """\
## For remote logs

`POST /v1/store/…` is the port of a store, for `strandline.open("http://…")`: msgpack messages \
that may change with any version. Use the endpoints above.
"""


def page() -> str:
    """Return the page."""
    document = openapi_document(ENDPOINTS)
    return "\n".join([_INTRODUCTION, *_sections(document), _REMOTE])


def _sections(document: dict[str, Any]) -> Iterator[str]:
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        if path.startswith("/v1/store/"):
            continue
        for method, each in methods.items():
            yield f"## {method.upper()} {path}\n"
            about = [each["summary"], each.get("description", "")]
            yield " ".join(filter(None, about)) + "\n"
            yield from _details(each, schemas)


def _details(each: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    scopes = [scope for one in each["security"] for scope in one["token"]]
    yield f"Scope: {f'`{scopes[0]}`' if scopes else 'none, no token is needed'}.\n"
    named = [one for one in each["parameters"] if one["in"] != "path"]
    if named:
        yield "| parameter | in | type |\n|---|---|---|"
        for one in named:
            yield f"| `{one['name']}` | {one['in']} | {_type(one['schema'])} |"
        yield ""
    if "requestBody" in each:
        yield f"Body: {_forms(each['requestBody']['content'], schemas)}\n"
    for status, one in each["responses"].items():
        if status.startswith("2") or status == "304":
            shown = _forms(one.get("content", {}), schemas)
            yield f"{status}: {one['description']} {shown}".rstrip() + "\n"


def _forms(content: dict[str, Any], schemas: dict[str, Any]) -> str:
    return "; ".join(
        f"`{media}`{_fields(form['schema'], schemas)}" for media, form in content.items()
    )


def _fields(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return "".join(_fields(one, schemas) for one in schema["anyOf"][:1])
    if "$ref" not in schema:
        return ""
    found = schemas[schema["$ref"].rpartition("/")[2]]
    names = [f"`{name}` {_type(one)}" for name, one in found.get("properties", {}).items()]
    return f" with {', '.join(names)}" if names else ""


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return "object"
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"] if one is not None)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return "any" if kind == "any" else str(kind)


if __name__ == "__main__":
    PAGE.write_text(page())
