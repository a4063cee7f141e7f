"""Partitions over HTTP: their ends, epochs, segments and proof; trimming, syncing, verifying."""

from typing import Any

import msgspec
from starlette.responses import Response

from strandline.log.off_loop import in_thread
from strandline.server.call import Call
from strandline.server.endpoint import JSON, endpoint, json_answer
from strandline.server.places import offset_of
from strandline.server.resume import positions_in
from strandline.server.tokens import TokenScope
from strandline.server.topics import ShownMarks
from strandline.values import InvalidError, Position, ProofHead
from strandline.values.json_forms import moment, proof_json, trim_json

_PARTITION = "/v1/topics/{topic}/partitions/{partition}"


class AtQuery(msgspec.Struct, forbid_unknown_fields=True):
    """A place in a partition."""

    place: str
    """earliest, latest, an offset, -n for the last n, or a time."""


class ShownOffset(msgspec.Struct):
    """An offset, also as a position that can be stored outside the log."""

    offset: int
    position: dict[str, Any]


class ShownEpochs(msgspec.Struct):
    """The epochs of a partition, oldest first."""

    epochs: list[dict[str, Any]]


class ShownSegments(msgspec.Struct):
    """The segments of a partition."""

    segments: list[dict[str, Any]]


class TrimBody(msgspec.Struct, forbid_unknown_fields=True):
    """What to remove."""

    before: int
    force: bool = False


class ShownTrim(msgspec.Struct):
    """The result of a trim."""

    partition: int
    removed: int
    remaining: int
    low: int
    held_at: int | None
    latest: int | None
    is_released: bool


class VerifyBody(msgspec.Struct, forbid_unknown_fields=True):
    """Heads of the proof that were kept elsewhere."""

    expected: list[dict[str, Any]] = []


class ShownProof(msgspec.Struct):
    """The result of a check of a partition."""

    topic: str
    tenant: str | None
    partition: int
    start: int
    end: int
    records: int
    is_proved: bool
    is_sound: bool
    head: dict[str, Any] | None
    findings: list[dict[str, Any]]


class ResolveBody(msgspec.Struct, forbid_unknown_fields=True):
    """A position, or the id of an event of a stream."""

    position: dict[str, Any] | None = None
    token: str | None = None


class ShownResolved(msgspec.Struct):
    """The offsets from which its holder can continue, by partition."""

    topic: str
    offsets: dict[str, int]


@endpoint("GET", _PARTITION, TokenScope.READ, answers={JSON: ShownMarks})
async def get_partition(call: Call) -> Response:
    """Return where a partition begins and ends."""
    number = call.partition
    marks = await call.log.marks(await call.topic(), number)
    return json_answer(ShownMarks(number, marks.low, marks.high, marks.durable))


@endpoint(
    "GET",
    f"{_PARTITION}/offset-at",
    TokenScope.READ,
    query=AtQuery,
    answers={JSON: ShownOffset},
)
async def get_offset_at(call: Call) -> Response:
    """Return the offset of a place, and its position with the epoch, to be kept elsewhere."""
    place, topic, number = call.query(AtQuery).place, await call.topic(), call.partition
    offset = await in_thread(offset_of, call.log.blocking, topic, number, place)
    position = await call.log.position(topic, number, offset)
    return json_answer({"offset": offset, "position": msgspec.Raw(position.to_json())})


@endpoint("GET", f"{_PARTITION}/epochs", TokenScope.READ, answers={JSON: ShownEpochs})
async def get_epochs(call: Call) -> Response:
    """Return the epochs of a partition, oldest first."""
    found = await call.log.epochs(await call.topic(), call.partition)
    epochs = [{"number": each.number, "id": str(each.id), "start": each.start} for each in found]
    return json_answer({"epochs": epochs})


@endpoint("GET", f"{_PARTITION}/segments", TokenScope.READ, answers={JSON: ShownSegments})
async def get_segments(call: Call) -> Response:
    """Return the segments of a partition, without their paths."""
    found = await call.log.segments(await call.topic(), call.partition)
    segments = [
        {
            "start": each.start,
            "end": each.end,
            "size_bytes": each.size_bytes,
            "first_timestamp": moment(each.first_timestamp_us),
            "last_timestamp": moment(each.last_timestamp_us),
            "is_sealed": each.is_sealed,
        }
        for each in found
    ]
    return json_answer({"segments": segments})


@endpoint("GET", f"{_PARTITION}/proof", TokenScope.READ, answers={JSON: dict[str, Any]})
async def get_proof(call: Call) -> Response:
    """Return the head of the proof, to be kept elsewhere. 400 for a topic without a proof."""
    head = await call.log.proof_head(await call.topic(), call.partition)
    return json_answer(msgspec.Raw(head.to_json()))


@endpoint(
    "POST",
    f"{_PARTITION}/trim",
    TokenScope.ADMIN,
    body={JSON: TrimBody},
    answers={JSON: ShownTrim},
)
async def trim_partition(call: Call) -> Response:
    """Remove the oldest records; without `force`, none that a live consumer has not acked."""
    topic, given = await call.topic(), await call.json(TrimBody)
    report = await call.log.trim(topic, call.partition, given.before, force=given.force)
    return json_answer(trim_json(report))


@endpoint("POST", f"{_PARTITION}/sync", TokenScope.APPEND, answers={JSON: ShownMarks})
async def sync_partition(call: Call) -> Response:
    """Make all appended records durable, if the log can."""
    number = call.partition
    marks = await call.log.sync(await call.topic(), number)
    return json_answer(ShownMarks(number, marks.low, marks.high, marks.durable))


@endpoint(
    "POST",
    f"{_PARTITION}/verify",
    TokenScope.READ,
    body={JSON: VerifyBody},
    answers={JSON: ShownProof},
)
async def verify_partition(call: Call) -> Response:
    """Verify a partition, and report damage and changes."""
    topic, given = await call.topic(), await call.json(VerifyBody)
    heads = [ProofHead.from_json(msgspec.json.encode(each)) for each in given.expected]
    (report,) = await call.log.verify(topic, call.partition, expected=heads)
    return json_answer(proof_json(topic.name, topic.tenant, report))


@endpoint(
    "POST",
    "/v1/resolve",
    TokenScope.READ,
    body={JSON: ResolveBody},
    answers={JSON: ShownResolved},
)
async def resolve_position(call: Call) -> Response:
    """Return the offset at which the holder of a position continues. 409 if records were lost."""
    given = await call.json(ResolveBody)
    if (given.position is None) == (given.token is None):
        raise InvalidError("pass a position or a token")
    if given.token is not None:
        positions = positions_in(given.token)
    else:
        positions = [Position.from_json(msgspec.json.encode(given.position))]
    visible = {each.id: each for each in await call.caller.visible(call.log)}
    topic = visible.get(positions[0].topic_id)
    if topic is None:
        topic_id = str(positions[0].topic_id)
        raise InvalidError("there is no topic with this position", topic=topic_id, near=[])
    offsets = {str(each.partition): await call.log.resolve(each) for each in positions}
    return json_answer({"topic": topic.name, "offsets": offsets})


ENDPOINTS = (
    get_partition,
    get_offset_at,
    get_epochs,
    get_segments,
    get_proof,
    trim_partition,
    sync_partition,
    verify_partition,
    resolve_position,
)
