"""The parts of a consumer, and the settings that they share."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from strandline.clock import Clock, SystemClock
from strandline.groups import LEASE_S_MIN, AssignmentEvent, Membership
from strandline.log import Log, count_partitions, has_holes, parts_of
from strandline.subscriptions.acks import Acks
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.counting import Counting
from strandline.subscriptions.dead_letters import DeadLettering
from strandline.subscriptions.deliveries import Deliveries
from strandline.subscriptions.passed_over import PassedOver
from strandline.subscriptions.rebalancing import Rebalancing
from strandline.subscriptions.received import tracing_of
from strandline.subscriptions.redriven import Redriven
from strandline.subscriptions.screening import FailedRecord
from strandline.subscriptions.settlement import Settlement
from strandline.subscriptions.stepping import Steps
from strandline.subscriptions.subscribing import records_for_consumer
from strandline.subscriptions.subscription import Subscription
from strandline.subscriptions.waiting import Waiting
from strandline.values import InvalidError, Record, Start, StartName, Topic
from strandline.values.arguments import check_choice, check_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The options of `Consumer`, checked."""

    start: Start | datetime
    where: str
    deliveries_max: int | None
    read_ahead: int | None
    clock: Clock | None
    takes_redriven: bool
    is_manual: bool
    lease_s: float
    on_assignment: Callable[[AssignmentEvent], object] | None
    commit_every: int | None
    commit_every_s: float | None
    blocks_keys: bool


class ConsumerParts(NamedTuple):
    """The parts of one consumer. None of them references the consumer itself."""

    subscription: Subscription[Record | FailedRecord]
    counting: Counting
    redriven: Redriven
    membership: Membership
    acks: Acks
    dead_letters: DeadLettering
    deliveries: Deliveries
    rebalancing: Rebalancing
    steps: Steps
    passed_over: PassedOver
    waiting: Waiting
    settlement: Settlement


def consumer_parts(log: Log, whose: ConsumerName, settings: ConsumerSettings) -> ConsumerParts:
    """Return the parts of a consumer that reads no partition yet."""
    topic = whose.topic
    clock = settings.clock or SystemClock()
    membership = _membership(log, whose, settings)
    counting = Counting(log, whose, settings.deliveries_max)
    subscription = _subscription(log, whose, settings, clock)
    redriven = Redriven(
        *(log, whose),
        deliveries_max=settings.deliveries_max,
        clock=clock,
        lease_s=settings.lease_s,
    )
    acks = Acks(
        *(log, whose, counting, clock),
        commit_every=settings.commit_every,
        commit_every_s=settings.commit_every_s,
        on_lost=membership.doubt,
    )
    passed_over = PassedOver(counting, acks, is_screened=_is_screened(log, topic, settings))
    expect = redriven.expect if settings.takes_redriven else _expect_nothing
    dead_letters = DeadLettering(log, whose, counting, acks, expect)
    waiting = Waiting(
        *(log, whose, counting, acks, subscription.assignment),
        clock=clock,
        blocks_keys=settings.blocks_keys,
        on_due=subscription._recall,  # noqa: SLF001 - Shared by both faces.
    )
    dead_letters.on_letter = waiting.look_at_letters
    deliveries = Deliveries(
        *(log, topic, counting, subscription),
        passed_over=passed_over,
        waiting=waiting,
        clock=clock,
        deliveries_max=settings.deliveries_max,
        dead_letter=dead_letters.dead_letter,
    )
    rebalancing = Rebalancing(
        *(log, whose, membership),
        deliveries=deliveries,
        acks=acks,
        counting=counting,
        start=settings.start,
        clock=_lease_clock(log, settings),
        on_event=settings.on_assignment,
        on_chosen=redriven.assign,
    )
    steps = Steps(
        *(subscription, deliveries, redriven),
        rebalancing=rebalancing,
        clock=clock,
        passed_over=passed_over,
        on_found=tracing_of(log, whose),
    )
    return ConsumerParts(
        *(subscription, counting, redriven, membership, acks, dead_letters, deliveries),
        *(rebalancing, steps, passed_over, waiting),
        Settlement(whose, counting, acks, redriven, membership=membership, rebalancing=rebalancing),
    )


def _subscription(
    log: Log, whose: ConsumerName, settings: ConsumerSettings, clock: Clock
) -> Subscription[Record | FailedRecord]:
    return records_for_consumer(
        log,
        whose.topic,
        whose.name,
        tenant=whose.tenant,
        where=settings.where,
        read_ahead=settings.read_ahead,
        clock=clock,
    )


def _membership(log: Log, whose: ConsumerName, settings: ConsumerSettings) -> Membership:
    return Membership(
        log,
        whose.topic,
        whose.name,
        tenant=whose.owner,
        lease_s=settings.lease_s,
        clock=_lease_clock(log, settings),
        partitions=_count_of(log, whose.topic),
        is_manual=settings.is_manual,
    )


def _lease_clock(log: Log, settings: ConsumerSettings) -> Clock:
    # Leases use the log's clock, as does everything that is stored.
    return settings.clock or parts_of(log).clock


def checked_lease(lease_s: float) -> float:
    """Return the lease time; InvalidError if it is too short to be renewed."""
    seconds = check_seconds("lease_s", lease_s)
    if seconds < LEASE_S_MIN:
        raise InvalidError(
            "a lease must last longer than the store takes to renew it, use a longer lease_s",
            lease_s=lease_s,
            least=LEASE_S_MIN,
        )
    return seconds


def checked_watcher(
    on_assignment: Callable[[AssignmentEvent], object] | None,
) -> Callable[[AssignmentEvent], object] | None:
    """Return the function to call with events; InvalidError if it is not callable."""
    if on_assignment is None or callable(on_assignment):
        return on_assignment
    raise InvalidError(
        "on_assignment is a function of an Assigned or Revoked", type=type(on_assignment).__name__
    )


def checked_start(start: Start | StartName | datetime) -> Start | datetime:
    """Return the start, parsed if it is text."""
    return (
        start if isinstance(start, datetime) else check_choice("start", start, Start, "a datetime")
    )


def _count_of(log: Log, topic: Topic) -> Callable[[], int]:
    return lambda: count_partitions(log, topic)


def _is_screened(log: Log, topic: Topic, settings: ConsumerSettings) -> bool:
    return bool(settings.where.strip()) or has_holes(log, topic)


def _expect_nothing() -> None:
    """Nothing can be redriven to this consumer."""
