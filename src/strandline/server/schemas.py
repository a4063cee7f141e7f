"""The schemas of topics over HTTP, and the last run of retention."""

from typing import Any

import msgspec
import pyarrow as pa
from starlette.responses import Response

from strandline.log import Log
from strandline.log.off_loop import in_thread
from strandline.server.call import Call
from strandline.server.endpoint import JSON, endpoint, json_answer
from strandline.server.tokens import TokenScope
from strandline.typed.versions import definition_of
from strandline.values import Topic
from strandline.values.json_forms import retention_json


class ShownField(msgspec.Struct):
    """A column of a schema."""

    name: str
    type: str
    nullable: bool


class SchemaVersion(msgspec.Struct):
    """A version of a schema, and its changes."""

    version: int
    fields: list[ShownField]
    added: list[str]
    """Columns that the version before did not have."""
    widened: dict[str, str]
    """By column, the type that it had before."""


class ShownSchemas(msgspec.Struct):
    """Versions of a topic's schema, oldest first; empty if it has no schema."""

    topic: str
    versions: list[SchemaVersion]


class ShownRetention(msgspec.Struct):
    """The retention of a topic, and its last run."""

    topic: str
    tenant: str | None
    retention_age_s: int | None
    retention_bytes: int | None
    limit_bytes: int | None
    ran_at: str | None
    removed: int | None
    pid: int | None
    host: str | None
    until: str | None
    held: list[dict[str, Any]]


@endpoint("GET", "/v1/topics/{topic}/schemas", TokenScope.READ, answers={JSON: ShownSchemas})
async def get_schemas(call: Call) -> Response:
    """Return the versions of a topic's schema, each with its changes to the previous one."""
    topic = await call.topic()
    return json_answer(
        ShownSchemas(topic.name, await in_thread(_versions, call.log.blocking, topic))
    )


@endpoint("GET", "/v1/topics/{topic}/retention", TokenScope.READ, answers={JSON: ShownRetention})
async def get_retention(call: Call) -> Response:
    """Return the retention of a topic, its last run, and the consumers that delay it."""
    found = retention_json(await call.log.describe_topic(await call.topic()))
    if call.caller.tenant is not None:
        # A tenant does not see which process it was.
        found |= {"pid": None, "host": None}
    return json_answer(found)


def _versions(log: Log, topic: Topic) -> list[SchemaVersion]:
    found: list[SchemaVersion] = []
    before: pa.Schema | None = None
    for number, schema in enumerate(definition_of(log, topic).versions, 1):
        types = {} if before is None else {each.name: each.type for each in before}
        found.append(
            SchemaVersion(
                number,
                [ShownField(each.name, str(each.type), bool(each.nullable)) for each in schema],
                [] if before is None else [each for each in schema.names if each not in types],
                {
                    each.name: str(types[each.name])
                    for each in schema
                    if each.name in types and types[each.name] != each.type
                },
            )
        )
        before = schema
    return found


ENDPOINTS = (get_schemas, get_retention)
