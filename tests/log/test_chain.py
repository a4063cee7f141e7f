"""The chain is what design 0022 says, in every backend and whatever records are stored as."""

import itertools
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from uuid import UUID

import pytest

from strandline.log import Log
from strandline.log.chain import Chain, link
from strandline.log.history import Body, EventBody
from strandline.values import Event, ValueKind
from tests.logs import file_log, memory_log, sqlite_log

LOG_ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
TOPIC_ID = UUID("01890a5d-ac96-774b-bcce-b302099a8058")


def test_the_encoding_stays_as_it_is() -> None:
    """Heads are kept for years: what they are digests of must not change."""
    chain = Chain(LOG_ID, TOPIC_ID, 3, ValueKind.EVENT)
    body = EventBody("order.created", b'{"n":1}', b"{}", 1_700_000_000_000_000)

    origin = sha256(
        b"strandline history 1" + LOG_ID.bytes + TOPIC_ID.bytes + struct.pack("<I", 3) + b"event"
    ).digest()
    digest = sha256(
        TOPIC_ID.bytes
        + struct.pack("<IQq", 3, 7, 1_700_000_000_000_001)
        + struct.pack("<Bq", 1, 1_700_000_000_000_000)
        + struct.pack("<qqqqq", 3, -1, 13, 2, 7)
        + b"key"
        + b"order.created"
        + b"{}"
        + b'{"n":1}'
    ).digest()

    assert chain.origin == origin
    assert chain.digest(7, 1_700_000_000_000_001, "key", None, body) == digest
    assert link(origin, digest) == sha256(origin + digest).digest()
    assert (
        link(origin, digest).hex()
        == "18ca8faaf25e5871a89a5872e358d0dcbd64388973553cd882880aa2c69708ec"
    )


def test_no_two_records_have_one_encoding() -> None:
    chain = Chain(LOG_ID, TOPIC_ID, 0, ValueKind.EVENT)
    texts: tuple[str | None, ...] = (None, "", "a", "b", "ab")
    parts = (b"", b"a", b"ab")
    bodies: list[Body] = [
        *parts,
        *(
            EventBody(kind, payload, headers, at)
            for kind in ("a", "ab")
            for payload in parts
            for headers in parts
            for at in (None, 0, 1)
        ),
    ]

    digests = [
        chain.digest(offset, stamp, key, tenant, body)
        for offset, stamp in ((0, 0), (0, 1), (1, 0))
        for key in texts
        for tenant in texts
        for body in bodies
    ]

    assert len(set(digests)) == len(digests)


def test_no_two_partitions_have_one_origin() -> None:
    ids = (LOG_ID, TOPIC_ID)
    origins = {
        Chain(log_id, topic_id, partition, kind).origin
        for log_id, topic_id, partition, kind in itertools.product(ids, ids, (0, 1), ValueKind)
    }

    assert len(origins) == 2 * 2 * 2 * 3


@pytest.fixture(params=[lambda _: memory_log(), file_log, sqlite_log])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    opening: Callable[[str], Log] = request.param
    with opening(str(tmp_path / "log")) as log:
        yield log


def recomputed(log: Log) -> bytes:
    """Return the chain's last value, from nothing but what a reader is given."""
    chain = Chain(log.id, log.topic("orders").id, 0, ValueKind.EVENT)
    value = chain.origin
    for record in log.read("orders", 0, 0):
        assert isinstance(record.value, Event)
        kind, payload, key, headers, occurred_at_us = record.value.parts()
        body = EventBody(kind, payload, headers, occurred_at_us)
        digest = chain.digest(record.offset, record.timestamp_us, key, record.tenant, body)
        value = link(value, digest)
    return value


def test_a_reader_can_compute_it_from_what_it_reads(log: Log) -> None:
    log.create_topic("orders", proof=True)
    log.append("orders", Event("order", {"ä": 1.5}, key="é", headers={"a": "b"}), tenant="acme")
    log.append("orders", Event("order", None, occurred_at=datetime(2026, 1, 2, tzinfo=UTC)))
    log.append_many("orders", [Event("order", {"n": n}, key=f"k{n % 3}") for n in range(100)])
    head = log.proof_head("orders", 0)

    assert recomputed(log) == head.digest

    assert log.seal("orders") == (log.describe().backend == "file")
    assert recomputed(log) == log.proof_head("orders", 0).digest == head.digest
