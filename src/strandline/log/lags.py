"""How far a consumer lags, in records and in seconds, and whether the lag grows."""

from collections.abc import Iterator
from typing import Final
from uuid import UUID

import msgspec

from strandline.log.gaps import NO_GAPS, Gaps, Runs
from strandline.log.ranges import ReadRange
from strandline.log.store import Store, StoredTopic
from strandline.log.stored_groups import StoredGroup
from strandline.values import (
    CONSUMER_IDLE_S,
    ConsumerLag,
    Offset,
    Partition,
    Record,
    Tenant,
    TrimmedError,
)
from strandline.values.delivery_time import deliver_at_us

TREND_S: Final = 30.0
"""The minimal age of a lag sample used as the start of a trend."""

_LOOKED_AT_MAX: Final = 1000
"""How many records are examined for the first one that is due."""

_IDLE_US: Final = CONSUMER_IDLE_S * 1_000_000
_TREND_US: Final = round(TREND_S * 1_000_000)


class LagSample(msgspec.Struct, frozen=True):
    """How far behind a consumer was at a moment."""

    at_us: int
    lag: int


class ConsumerCursor(msgspec.Struct, frozen=True, omit_defaults=True):
    """One consumer's cursor in one partition, with the epoch that it belongs to."""

    partition: int
    offset: int
    seen_at_us: int
    epoch: int
    epoch_id: UUID
    generation: int = 0
    """The generation of the member that holds the partition, or held it last. See design 0092."""
    samples: tuple[LagSample, ...] = ()
    """The latest sample and an earlier one, from which the lag's trend is computed."""
    settled: Runs = ()
    """The records settled beyond the offset. See design 0110."""
    delays: Runs = ()
    """The nacked records, with the times of their next delivery."""
    settled_epoch_id: UUID | None = None
    """The epoch of the last record that is settled beyond the offset."""
    seek_id: UUID | None = None
    """The id of the last seek, or of the registration; acks keep it.
    None in cursors of earlier versions."""

    @property
    def gaps(self) -> Gaps:
        """The records after the offset that are settled, or nacked with a delay."""
        return Gaps(self.settled, self.delays) if self.settled or self.delays else NO_GAPS

    def lag(self, high: int) -> int:
        """Return how many records before `high` are not settled."""
        return max(0, high - self.offset - self.gaps.before(high).settled_count)


def holds_retention(cursor: ConsumerCursor, now_us: int) -> bool:
    """Whether the consumer still holds back trimming."""
    return now_us - cursor.seen_at_us <= _IDLE_US


def sampled(samples: tuple[LagSample, ...], now_us: int, lag: int) -> tuple[LagSample, ...]:
    """Return the samples, with the current lag added if the latest is old enough."""
    if samples and now_us - samples[-1].at_us < _TREND_US:
        return samples
    return (*samples[-1:], LagSample(now_us, lag))


def consumer_lag(
    store: Store[StoredTopic],
    topic: StoredTopic,
    cursor: ConsumerCursor,
    group: StoredGroup,
    now_us: int,
) -> ConsumerLag:
    """Return how far a consumer lags in one partition, and which member holds it."""
    high = store.state(topic, cursor.partition).marks.high
    lag = cursor.lag(high)
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
    """Return how long ago the first unhandled record became due; None if unknown."""
    try:
        for record in _unsettled(store, topic, cursor):
            due_us = max(record.timestamp_us, deliver_at_us(record) or 0)
            if due_us <= now_us:
                return (now_us - due_us) / 1_000_000
    except TrimmedError:
        # A trim removed the records meanwhile: the next call has the answer.
        return None
    return 0.0


def _unsettled(
    store: Store[StoredTopic], topic: StoredTopic, cursor: ConsumerCursor
) -> Iterator[Record]:
    """Yield the first records that are not settled."""
    low = store.state(topic, cursor.partition).marks.low
    ends = [*cursor.gaps.holes(cursor.offset), (max(cursor.offset, cursor.gaps.end), None)]
    left = _LOOKED_AT_MAX
    for start, end in ends:
        if end is not None and end <= low:
            continue
        at = max(start, low)
        # Often the first record is enough, and some stores read all that is requested at once.
        for is_first in (True, False):
            if end is not None and at >= end:
                break
            count = 1 if is_first else left
            for record in store.read(topic, cursor.partition, ReadRange(at, end, count)):
                left -= 1
                at = record.offset + 1
                yield record
            if not left:
                return


def _trend(samples: tuple[LagSample, ...], lag: int, now_us: int) -> float | None:
    """Return by how many records a second the lag grows; None while that is unknown."""
    first = samples[0] if samples else None
    if first is None or now_us <= first.at_us:
        return None
    if not lag:
        # It cannot fall any more, and without acks no later sample shows that.
        return 0.0
    return (lag - first.lag) * 1_000_000 / (now_us - first.at_us)
