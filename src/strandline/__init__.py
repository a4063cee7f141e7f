"""A durable, replayable event log: append, subscribe, ask a view, run Spark over it."""

from strandline.log.active import active, install, reset
from strandline.log.opening import open_log as open
from strandline.log.protocol import Log, Receipt
from strandline.subscriptions import CaughtUp, Consumer, FellBehind, Subscription, subscribe
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
    "install",
    "open",
    "reset",
    "subscribe",
]
