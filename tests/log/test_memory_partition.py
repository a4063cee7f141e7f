"""A partition that has ended refuses whoever still holds it."""

from collections.abc import Callable

import pytest
from strandline.log.memory_partition import MemoryPartition

from strandline.log.chain import Chain
from strandline.log.draft import draft
from strandline.log.terms import Terms
from strandline.testing import FakeClock
from strandline.values import (
    ClosedError,
    Partition,
    Topic,
    TopicSettings,
    ValueKind,
)


def test_every_call_raises_after_the_end() -> None:
    clock = FakeClock()
    topic = Topic("raw", clock.new_id())
    chain = Chain(clock.new_id(), topic.id, 0, ValueKind.BYTES)
    partition = MemoryPartition(topic, Partition(0), clock, chain, is_proved=True)
    calls: tuple[Callable[[], object], ...] = (
        lambda: append(partition),
        partition.marks,
        lambda: partition.read(0, None, None, None),
        lambda: partition.check_kept(0),
        lambda: partition.offset_at(0),
        partition.segments,
        partition.proof_head,
        lambda: partition.history(0, None),
        partition.size_bytes,
        lambda: partition.trim(0, force=True),
        lambda: partition.retain(TopicSettings()),
        lambda: partition.ack(None, "billing", 0),
        lambda: partition.seek(None, "billing", 0),
        lambda: partition.cursor(None, "billing"),
        lambda: partition.consumers(None),
        lambda: partition.forget(None, "billing"),
    )
    for call in calls:
        call()

    partition.end(ClosedError("over"))

    for call in calls:
        with pytest.raises(ClosedError):
            call()


def append(partition: MemoryPartition) -> None:
    terms = Terms(
        partition=None,
        tenant=None,
        durability=None,
        producer=None,
        sequence=None,
        idempotency_key=None,
        expected_offset=None,
        timeout_s=None,
    )
    drafts = [draft(b"x", None, ValueKind.BYTES, 10)]
    partition.append(drafts, [0], None, terms, TopicSettings())
