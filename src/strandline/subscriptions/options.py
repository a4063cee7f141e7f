"""The keyword options of `subscribe` and of consumers."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Literal, TypedDict

from strandline.clock import Clock
from strandline.groups import AssignmentEvent
from strandline.subscriptions.blocked_keys import OnDeadLetter
from strandline.subscriptions.start import Partitions, Starts
from strandline.values import Start, StartName


class SubscribeOptions(TypedDict, total=False):
    """Options of `subscribe`, explained there."""

    start: Starts
    partitions: Partitions | None
    consumer: str | None
    tenant: str | None
    where: str
    durable_only: bool
    read_ahead: int | None
    clock: Clock | None


class QueueOptions(TypedDict, total=False):
    """Options of a member of a work queue, see `SharedConsumer`."""

    tenant: str | None
    start: Start | StartName | datetime
    deliveries_max: int
    visibility_s: float
    order: Literal["key"] | None
    clock: Clock | None
    on_dead_letter: OnDeadLetter
    where: str


class ConsumerOptions(TypedDict, total=False):
    """Options of a consumer, see `Consumer`."""

    tenant: str | None
    partitions: Iterable[int] | None
    start: Start | StartName | datetime
    where: str
    deliveries_max: int
    read_ahead: int | None
    clock: Clock | None
    group: bool
    lease_s: float
    on_assignment: Callable[[AssignmentEvent], object] | None
    commit_every: int | None
    commit_every_s: float | None
    on_dead_letter: OnDeadLetter
