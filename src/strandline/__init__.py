"""A durable, replayable event log: append, subscribe, query a view, run Spark over it.

A name is imported when it is first used, so that a program pays for what it uses.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strandline.active_log import active, install, installed, reset
    from strandline.backups import LogCopy, backup, restore
    from strandline.log import Log, Receipt
    from strandline.opening import describe
    from strandline.opening import open_log as open
    from strandline.predicates import (
        Predicate,
        PredicateError,
        PredicateEvalError,
        UnsupportedPredicateError,
        matches_each,
        parse_predicate,
    )
    from strandline.subscriptions import (
        Broker,
        CaughtUp,
        Consumer,
        Delivery,
        FellBehind,
        LiveSubscription,
        LocalBroker,
        MachineBroker,
        Subscription,
        subscribe,
    )
    from strandline.triggers import Triggers, on
    from strandline.typed import (
        ConsumerProgress,
        DeliveredBatch,
        SchemaConflictError,
        SchemaMismatchError,
        Scope,
        ScopedSubscription,
        TenantMismatchError,
        TopicDefinition,
        UnsupportedTypeError,
    )
    from strandline.values import (
        EARLIEST,
        LATEST,
        UNCHANGED,
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
    from strandline.views import (
        LiveView,
        PendingView,
        RefusedError,
        SavedView,
        StoppedError,
        View,
        load_snapshot,
    )

    __version__: str
    """The version of the package, as it was installed."""

__all__ = [
    "EARLIEST",
    "LATEST",
    "UNCHANGED",
    "Broker",
    "CaughtUp",
    "ClosedError",
    "ConflictError",
    "Consumer",
    "ConsumerProgress",
    "CorruptError",
    "DeliveredBatch",
    "Delivery",
    "DivergedError",
    "Durability",
    "Event",
    "FailedError",
    "FellBehind",
    "InvalidError",
    "LiveSubscription",
    "LiveView",
    "LocalBroker",
    "Log",
    "LogCopy",
    "MachineBroker",
    "NotReadyError",
    "PendingView",
    "Predicate",
    "PredicateError",
    "PredicateEvalError",
    "ProofHead",
    "ProofReport",
    "Receipt",
    "Record",
    "RefusedError",
    "RejectedError",
    "SavedView",
    "SchemaConflictError",
    "SchemaMismatchError",
    "Scope",
    "ScopedSubscription",
    "StoppedError",
    "StrandlineError",
    "Subscription",
    "TenantMismatchError",
    "TopicDefinition",
    "Triggers",
    "TrimmedError",
    "UnavailableError",
    "UnknownError",
    "UnsupportedPredicateError",
    "UnsupportedTypeError",
    "ValueKind",
    "View",
    "active",
    "backup",
    "describe",
    "install",
    "installed",
    "load_snapshot",
    "matches_each",
    "on",
    "open",
    "parse_predicate",
    "reset",
    "restore",
    "subscribe",
]

_HOMES = {
    "EARLIEST": "strandline.values",
    "LATEST": "strandline.values",
    "UNCHANGED": "strandline.values",
    "Broker": "strandline.subscriptions",
    "CaughtUp": "strandline.subscriptions",
    "ClosedError": "strandline.values",
    "ConflictError": "strandline.values",
    "Consumer": "strandline.subscriptions",
    "ConsumerProgress": "strandline.typed",
    "CorruptError": "strandline.values",
    "DeliveredBatch": "strandline.typed",
    "Delivery": "strandline.subscriptions",
    "DivergedError": "strandline.values",
    "Durability": "strandline.values",
    "Event": "strandline.values",
    "FailedError": "strandline.values",
    "FellBehind": "strandline.subscriptions",
    "InvalidError": "strandline.values",
    "LiveSubscription": "strandline.subscriptions",
    "LiveView": "strandline.views",
    "LocalBroker": "strandline.subscriptions",
    "Log": "strandline.log",
    "LogCopy": "strandline.backups",
    "MachineBroker": "strandline.subscriptions",
    "NotReadyError": "strandline.values",
    "PendingView": "strandline.views",
    "Predicate": "strandline.predicates",
    "PredicateError": "strandline.predicates",
    "PredicateEvalError": "strandline.predicates",
    "ProofHead": "strandline.values",
    "ProofReport": "strandline.values",
    "Receipt": "strandline.log",
    "Record": "strandline.values",
    "RefusedError": "strandline.views",
    "RejectedError": "strandline.values",
    "SavedView": "strandline.views",
    "SchemaConflictError": "strandline.typed",
    "SchemaMismatchError": "strandline.typed",
    "Scope": "strandline.typed",
    "ScopedSubscription": "strandline.typed",
    "StoppedError": "strandline.views",
    "StrandlineError": "strandline.values",
    "Subscription": "strandline.subscriptions",
    "TenantMismatchError": "strandline.typed",
    "TopicDefinition": "strandline.typed",
    "Triggers": "strandline.triggers",
    "TrimmedError": "strandline.values",
    "UnavailableError": "strandline.values",
    "UnknownError": "strandline.values",
    "UnsupportedPredicateError": "strandline.predicates",
    "UnsupportedTypeError": "strandline.typed",
    "ValueKind": "strandline.values",
    "View": "strandline.views",
    "active": "strandline.active_log",
    "backup": "strandline.backups",
    "describe": "strandline.opening",
    "install": "strandline.active_log",
    "installed": "strandline.active_log",
    "load_snapshot": "strandline.views",
    "matches_each": "strandline.predicates",
    "on": "strandline.triggers",
    "open": "strandline.opening",
    "parse_predicate": "strandline.predicates",
    "reset": "strandline.active_log",
    "restore": "strandline.backups",
    "subscribe": "strandline.subscriptions",
}
_RENAMED = {"open": "open_log"}

# Hidden from type checkers, to which any name would exist then.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        value: object
        if name in _HOMES:
            value = getattr(import_module(_HOMES[name]), _RENAMED.get(name, name))
        elif name == "__version__":
            value = import_module("importlib.metadata").version(__name__)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, "__version__"})
