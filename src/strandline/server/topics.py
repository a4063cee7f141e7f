"""The log and its topics over HTTP."""

import contextlib
from typing import Any

import msgspec
from starlette.responses import Response

from strandline.log import parts_of
from strandline.server.call import Call
from strandline.server.endpoint import JSON, endpoint, json_answer
from strandline.server.tokens import TokenScope
from strandline.values import UNCHANGED, DroppedError, InvalidError, TopicDescription
from strandline.values.json_forms import topic_json
from strandline.values.payload_text import parse_payload_schema
from strandline.values.topic import ValueKindName

_PAGE_TOPICS = 1000


class TopicsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which topics."""

    prefix: str = ""
    after: str = ""
    limit: int = 100


class NewTopic(msgspec.Struct, forbid_unknown_fields=True):
    """The settings of a topic."""

    partitions: int = 1
    kind: ValueKindName = "event"
    retention_age_s: int | None = None
    retention_bytes: int | None = None
    limit_bytes: int | None = None
    proof: bool = False
    metadata: dict[str, str] = {}
    payload: str | None = None


class ChangedTopic(msgspec.Struct, forbid_unknown_fields=True):
    """Changes of limits, and of the declared payload; null removes one, others do not change."""

    retention_age_s: int | msgspec.UnsetType | None = msgspec.UNSET
    retention_bytes: int | msgspec.UnsetType | None = msgspec.UNSET
    limit_bytes: int | msgspec.UnsetType | None = msgspec.UNSET
    payload: str | msgspec.UnsetType | None = msgspec.UNSET


class ShownMarks(msgspec.Struct):
    """Where a partition begins and ends."""

    partition: int
    low: int
    high: int
    durable: int


class ShownTopic(msgspec.Struct):
    """The current state of a topic."""

    name: str
    tenant: str | None
    id: str
    kind: ValueKindName
    created_at: str
    retention_age_s: int | None
    retention_bytes: int | None
    limit_bytes: int | None
    proof: bool
    payload_schema: dict[str, str] | None
    source: str | None
    records: int
    size_bytes: int
    partitions: list[ShownMarks]
    metadata: dict[str, str]


class ShownTopics(msgspec.Struct):
    """A page of topics; `next` is to be passed as `after`, and null on the last page."""

    topics: list[ShownTopic]
    next: str | None


class ShownLog(msgspec.Struct):
    """The log that is served."""

    id: str
    mode: str
    durability_max: str
    backend: str | None
    capabilities: dict[str, Any]
    limits: dict[str, Any]
    tenant: str | None
    scopes: list[str]


@endpoint("GET", "/v1/log", TokenScope.READ, answers={JSON: ShownLog})
async def get_log(call: Call) -> Response:
    """Describe the served log, and the permissions of the caller."""
    store = parts_of(call.log.blocking).store
    found = store.capabilities
    settings = call.settings
    return json_answer(
        ShownLog(
            id=str(call.log.id),
            mode=str(call.log.mode),
            durability_max=str(call.log.durability_max),
            backend=store.url.partition(":")[0] if call.caller.tenant is None else None,
            capabilities={
                "durability_reason": found.durability_reason,
                "has_segments": found.has_segments,
            },
            limits={
                "body_bytes_max": settings.body_bytes_max,
                "page_records_max": settings.page_records_max,
                "page_bytes_max": settings.page_bytes_max,
            },
            tenant=call.caller.tenant,
            scopes=sorted(call.caller.scopes),
        )
    )


@endpoint("POST", "/v1/flush", TokenScope.ADMIN, status=204)
async def flush(call: Call) -> Response:
    """Make everything durable, if the log can."""
    await call.log.flush()
    return Response(status_code=204)


@endpoint("GET", "/v1/topics", TokenScope.READ, query=TopicsQuery, answers={JSON: ShownTopics})
async def list_topics(call: Call) -> Response:
    """List the topics that the caller sees, sorted by name."""
    query = call.query(TopicsQuery)
    if not 1 <= query.limit <= _PAGE_TOPICS:
        raise InvalidError(f"limit is a number from 1 to {_PAGE_TOPICS}", limit=query.limit)
    found = [
        each
        for each in await call.caller.visible(call.log)
        if each.name.startswith(query.prefix) and each.name > query.after
    ]
    page = []
    for each in found[: query.limit]:
        with contextlib.suppress(DroppedError):
            page.append(await call.log.describe_topic(each))
    more = found[query.limit - 1].name if len(found) > query.limit else None
    return json_answer({"topics": [shown_topic(each) for each in page], "next": more})


@endpoint(
    "PUT",
    "/v1/topics/{topic}",
    TokenScope.ADMIN,
    body={JSON: NewTopic},
    answers={JSON: ShownTopic},
    status=201,
    statuses={200: "It exists with these settings."},
)
async def put_topic(call: Call) -> Response:
    """Create a topic. 409 if it exists with other settings."""
    name = call.caller.check_name(call.path("topic"))
    given = await call.json(NewTopic)
    is_new = name not in {each.name for each in await call.caller.visible(call.log)}
    made = await call.log.create_topic(
        name,
        tenant=call.caller.tenant,
        partitions=given.partitions,
        value_kind=given.kind,
        retention_age_s=given.retention_age_s,
        retention_bytes=given.retention_bytes,
        limit_bytes=given.limit_bytes,
        proof=given.proof,
        metadata=given.metadata,
        payload_schema=None if given.payload is None else parse_payload_schema(given.payload),
    )
    found = await call.log.describe_topic(made)
    return json_answer(shown_topic(found), 201 if is_new else 200)


@endpoint("GET", "/v1/topics/{topic}", TokenScope.READ, answers={JSON: ShownTopic})
async def get_topic(call: Call) -> Response:
    """Describe a topic."""
    return json_answer(shown_topic(await call.log.describe_topic(await call.topic())))


@endpoint(
    "PATCH",
    "/v1/topics/{topic}",
    TokenScope.ADMIN,
    body={JSON: ChangedTopic},
    answers={JSON: ShownTopic},
)
async def patch_topic(call: Call) -> Response:
    """Change the limits of a topic, or its declared payload fields."""
    topic, given = await call.topic(), await call.json(ChangedTopic)
    if given.payload is not msgspec.UNSET:
        declared = None if given.payload is None else parse_payload_schema(given.payload)
        await call.log.declare_payload(topic, declared)
    limits = {
        name: UNCHANGED if value is msgspec.UNSET else value
        for name, value in (
            ("retention_age_s", given.retention_age_s),
            ("retention_bytes", given.retention_bytes),
            ("limit_bytes", given.limit_bytes),
        )
    }
    return json_answer(shown_topic(await call.log.change_retention(topic, **limits)))


@endpoint("DELETE", "/v1/topics/{topic}", TokenScope.ADMIN, status=204)
async def delete_topic(call: Call) -> Response:
    """Remove a topic with its records and consumers."""
    topic = await call.topic()
    await call.log.drop_topic(topic)
    call.topics.forget(topic)
    return Response(status_code=204)


def shown_topic(found: TopicDescription) -> dict[str, Any]:
    """Return a topic in its JSON form."""
    return {**topic_json(found), "metadata": dict(found.settings.metadata)}


ENDPOINTS = (get_log, flush, list_topics, put_topic, get_topic, patch_topic, delete_topic)
