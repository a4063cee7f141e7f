"""A durable, replayable event log: append, subscribe, ask a view, run Spark over it."""

from strandline.active_log import active, install, reset
from strandline.log.protocol import Receipt
from strandline.opening import describe
from strandline.opening import open_log as open
from strandline.subscriptions import (
    CaughtUp,
    Consumer,
    Delivery,
    FellBehind,
    Subscription,
    subscribe,
)
from strandline.subscriptions import SubscribableLog as Log
from strandline.values import (
    EARLIEST,
    LATEST,
    ClosedError,
    ConflictError,
    CorruptError,
    DivergedError,
    Durability,
    Event,
    FailedError,
    InvalidError,
    NotReadyError,
    ProofHead,
    ProofReport,
    Record,
    RejectedError,
    StrandlineError,
    TrimmedError,
    UnavailableError,
    UnknownError,
    ValueKind,
)
from strandline.views import LiveView, PendingView, RefusedError, StoppedError, View

__all__ = [
    "EARLIEST",
    "LATEST",
    "CaughtUp",
    "ClosedError",
    "ConflictError",
    "Consumer",
    "CorruptError",
    "Delivery",
    "DivergedError",
    "Durability",
    "Event",
    "FailedError",
    "FellBehind",
    "InvalidError",
    "LiveView",
    "Log",
    "NotReadyError",
    "PendingView",
    "ProofHead",
    "ProofReport",
    "Receipt",
    "Record",
    "RefusedError",
    "RejectedError",
    "StoppedError",
    "StrandlineError",
    "Subscription",
    "TrimmedError",
    "UnavailableError",
    "UnknownError",
    "ValueKind",
    "View",
    "active",
    "describe",
    "install",
    "open",
    "reset",
    "subscribe",
]
