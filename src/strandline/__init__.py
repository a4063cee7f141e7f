"""A durable, replayable event log.

The rooms, from the ground up: `values`, `clock` and `io`, `writes`. The names
most callers need are here.
"""

from strandline.values import (
    ClosedError,
    ConflictError,
    CorruptError,
    DivergedError,
    Durability,
    Event,
    FailedError,
    InvalidError,
    NotReadyError,
    RejectedError,
    StrandlineError,
    TrimmedError,
    UnavailableError,
    UnknownError,
)

__all__ = [
    "ClosedError",
    "ConflictError",
    "CorruptError",
    "DivergedError",
    "Durability",
    "Event",
    "FailedError",
    "InvalidError",
    "NotReadyError",
    "RejectedError",
    "StrandlineError",
    "TrimmedError",
    "UnavailableError",
    "UnknownError",
]
