"""Subscriptions: cursors over a log, woken by hints, read by offset.

Promises: of each assigned partition exactly start, start + 1, …, in order, also if
hints are lost; memory bounded by one page; nothing lost when a step is cancelled,
times out or fails; no further record of a partition once it is removed, and none at
all once the subscription is closed. A consumer gets each record at least once, and its
cursor in the log never passes a record that it has not acked.

Does not promise an order across partitions, does not store its position in the log
(only a consumer's cursor does), and neither slows nor fails a writer.
"""

from strandline.log import Broker, LiveSubscription
from strandline.log.queue_depth import QUEUE_DEPTH_VARIABLE, READ_AHEAD
from strandline.subscriptions.assignment import Assignment
from strandline.subscriptions.async_consumer import AsyncConsumer
from strandline.subscriptions.async_shared_consumer import AsyncSharedConsumer
from strandline.subscriptions.async_subscription import AsyncAssignment, AsyncSubscription
from strandline.subscriptions.broker import LocalBroker
from strandline.subscriptions.consumer import Consumer
from strandline.subscriptions.consumers import open_consumer
from strandline.subscriptions.delivery import Delivery
from strandline.subscriptions.machine_broker import MachineBroker
from strandline.subscriptions.markers import CaughtUp, FellBehind, Marker
from strandline.subscriptions.outstanding import DELIVERIES_MAX, OUTSTANDING_MAX
from strandline.subscriptions.shared_consumer import VISIBILITY_S, SharedConsumer
from strandline.subscriptions.start import StartPoint
from strandline.subscriptions.stream import AsyncStream, Stream
from strandline.subscriptions.subscribing import subscribe
from strandline.subscriptions.subscription import Subscription

__all__ = [
    "DELIVERIES_MAX",
    "OUTSTANDING_MAX",
    "QUEUE_DEPTH_VARIABLE",
    "READ_AHEAD",
    "VISIBILITY_S",
    "Assignment",
    "AsyncAssignment",
    "AsyncConsumer",
    "AsyncSharedConsumer",
    "AsyncStream",
    "AsyncSubscription",
    "Broker",
    "CaughtUp",
    "Consumer",
    "Delivery",
    "FellBehind",
    "LiveSubscription",
    "LocalBroker",
    "MachineBroker",
    "Marker",
    "SharedConsumer",
    "StartPoint",
    "Stream",
    "Subscription",
    "open_consumer",
    "subscribe",
]
