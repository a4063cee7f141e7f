"""Dead letters over HTTP."""

from typing import Any

import msgspec
from starlette.responses import Response

from strandline.log import Log
from strandline.log.off_loop import in_thread
from strandline.log.store import still_there
from strandline.server.call import Call
from strandline.server.endpoint import JSON, endpoint, json_answer
from strandline.server.tokens import TokenScope
from strandline.subscriptions.dead_letters import dead_letter_topic_name
from strandline.subscriptions.redriving import DeadLetter, dead_letter_json, dead_letters, redrive
from strandline.values import InvalidError, Topic

_LETTERS_MAX = 1000


class DeadLettersQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters."""

    consumer: str | None = None
    after: int = -1
    limit: int = 100


class RedriveBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters to redrive; `dry_run` shows them, and redrives nothing."""

    consumer: str | None = None
    offsets: list[int] | None = None
    dry_run: bool = True


class ShownDeadLetter(msgspec.Struct):
    """A record that a consumer could not handle."""

    offset: int
    consumer: str
    deliveries: int
    reason: str
    dead_lettered_at: str
    partition: int
    record_offset: int
    kind: str
    key: str | None
    payload: Any
    headers: dict[str, str]
    is_redriven: bool


class ShownDeadLetters(msgspec.Struct):
    """Dead letters of a topic; `next` is to be passed as `after`, and null on the last page."""

    topic: str
    dead_letters: list[ShownDeadLetter]
    next: int | None = None


class CountedDeadLetters(msgspec.Struct):
    """How many dead letters of a topic are kept, and how many of them wait for a redrive."""

    topic: str
    kept: int
    waiting: int


class ShownCounts(msgspec.Struct):
    """The topics that have dead letters, of those that the caller sees."""

    topics: list[CountedDeadLetters]


class ShownRedrive(msgspec.Struct):
    """The redriven dead letters, or with `dry_run` those that would be."""

    topic: str
    dry_run: bool
    dead_letters: list[ShownDeadLetter]


@endpoint("GET", "/v1/dead-letters", TokenScope.READ, answers={JSON: ShownCounts})
async def count_dead_letters(call: Call) -> Response:
    """Count the dead letters of every topic that has some."""
    visible = await call.caller.visible(call.log)
    return json_answer(ShownCounts(await in_thread(_counts, call.log.blocking, visible)))


@endpoint(
    "GET",
    "/v1/topics/{topic}/dead-letters",
    TokenScope.READ,
    query=DeadLettersQuery,
    answers={JSON: ShownDeadLetters},
)
async def list_dead_letters(call: Call) -> Response:
    """List the dead letters of a topic, oldest first."""
    topic, query = await call.topic(), call.query(DeadLettersQuery)
    if not 1 <= query.limit <= _LETTERS_MAX:
        raise InvalidError(f"limit is a number from 1 to {_LETTERS_MAX}", limit=query.limit)
    found = [
        each
        for each in await in_thread(_letters, call.log.blocking, topic, query.consumer)
        if each.offset > query.after
    ]
    page = found[: query.limit]
    more = page[-1].offset if len(found) > query.limit else None
    letters = [dead_letter_json(each) for each in page]
    return json_answer({"topic": topic.name, "dead_letters": letters, "next": more})


@endpoint(
    "POST",
    "/v1/topics/{topic}/dead-letters/redrive",
    TokenScope.CONSUME,
    body={JSON: RedriveBody},
    answers={JSON: ShownRedrive},
)
async def redrive_dead_letters(call: Call) -> Response:
    """Deliver dead letters again to their consumers, each once; `dry_run` is the default."""
    topic, given = await call.topic(), await call.json(RedriveBody)
    found = await in_thread(
        redrive,
        call.log.blocking,
        topic,
        consumer=given.consumer,
        offsets=given.offsets,
        dry_run=given.dry_run,
    )
    letters = [dead_letter_json(each) for each in found]
    return json_answer({"topic": topic.name, "dry_run": given.dry_run, "dead_letters": letters})


def _letters(log: Log, topic: Topic, consumer: str | None = None) -> list[DeadLetter]:
    return list(dead_letters(log, topic, consumer=consumer))


def _counts(log: Log, topics: list[Topic]) -> list[CountedDeadLetters]:
    tenants = {each.tenant for each in topics}
    internal = {
        (each.tenant, each.name)
        for whose in tenants
        for each in log.topics(tenant=whose, internal=True)
    }

    def look(topic: Topic) -> CountedDeadLetters:
        letters = _letters(log, topic)
        waiting = sum(not letter.is_redriven for letter in letters)
        return CountedDeadLetters(topic.name, len(letters), waiting)

    parked = (each for each in topics if (each.tenant, dead_letter_topic_name(each)) in internal)
    return list(still_there(parked, look))


ENDPOINTS = (count_dead_letters, list_dead_letters, redrive_dead_letters)
