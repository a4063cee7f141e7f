"""How far a consumer is behind, in records and in seconds, and whether that grows."""

from typing import Final
from uuid import UUID

import msgspec

from strandline.log.ranges import ReadRange
from strandline.log.store import PartitionState, Store, StoredTopic
from strandline.log.stored_groups import StoredGroup
from strandline.values import (
    CONSUMER_IDLE_S,
    ConsumerLag,
    Offset,
    Partition,
    Tenant,
    TrimmedError,
)

TREND_S: Final = 30.0
"""How old a lag is, at least, before it is taken for the beginning of a trend."""

_IDLE_US: Final = CONSUMER_IDLE_S * 1_000_000
_TREND_US: Final = round(TREND_S * 1_000_000)


class LagSample(msgspec.Struct, frozen=True):
    """How far behind a consumer was at a moment."""

    at_us: int
    lag: int


class ConsumerCursor(msgspec.Struct, frozen=True):
    """One consumer's place in one partition, and the history that it is a place in."""

    partition: int
    offset: int
    seen_at_us: int
    epoch: int
    epoch_id: UUID
    generation: int = 0
    """That of the member which holds the partition, or held it last. See design 0092."""
    samples: tuple[LagSample, ...] = ()
    """The latest, and one from before, of which the lag's trend is made."""


def holds_retention(cursor: ConsumerCursor, now_us: int) -> bool:
    """Whether the consumer still holds trimming back."""
    return now_us - cursor.seen_at_us <= _IDLE_US


def sampled(
    samples: tuple[LagSample, ...], now_us: int, state: PartitionState, offset: int
) -> tuple[LagSample, ...]:
    """Return the samples with the lag of now, where the latest is old enough."""
    if samples and now_us - samples[-1].at_us < _TREND_US:
        return samples
    return (*samples[-1:], LagSample(now_us, max(0, state.marks.high - offset)))


def consumer_lag(
    store: Store[StoredTopic],
    topic: StoredTopic,
    cursor: ConsumerCursor,
    group: StoredGroup,
    now_us: int,
) -> ConsumerLag:
    """Return how far a consumer is in one partition, and which member holds it."""
    high = store.state(topic, cursor.partition).marks.high
    lag = max(0, high - cursor.offset)
    hold = group.hold(cursor.partition)
    member = None if hold is None else group.member(hold.member)
    return ConsumerLag(
        group.name,
        None if group.tenant is None else Tenant(group.tenant),
        Partition(cursor.partition),
        Offset(cursor.offset),
        lag,
        cursor.seen_at_us,
        is_live=member is not None and member.is_live_at(now_us),
        holds_retention=holds_retention(cursor, now_us),
        lag_s=_age_s(store, topic, cursor, now_us) if lag else 0.0,
        trend=_trend(cursor.samples, lag, now_us),
        member=None if member is None else member.place,
        generation=cursor.generation,
        held_since_us=None if hold is None or member is None else hold.since_us,
        reason="" if hold is None else hold.reason,
    )


def _age_s(
    store: Store[StoredTopic], topic: StoredTopic, cursor: ConsumerCursor, now_us: int
) -> float | None:
    """Return how long ago the first record was appended that the consumer has not handled."""
    start = max(cursor.offset, store.state(topic, cursor.partition).marks.low)
    try:
        wanted = ReadRange(start, None, 1)
        first = next(iter(store.read(topic, cursor.partition, wanted)), None)
    except TrimmedError:
        # A trim was faster: what comes next is known at the next look.
        return None
    return None if first is None else max(0.0, (now_us - first.timestamp_us) / 1_000_000)


def _trend(samples: tuple[LagSample, ...], lag: int, now_us: int) -> float | None:
    """Return by how many records a second the lag grows; None as long as that is unknown."""
    first = samples[0] if samples else None
    if first is None or now_us <= first.at_us:
        return None
    return (lag - first.lag) * 1_000_000 / (now_us - first.at_us)
