"""What a store provides for the coordinator: a delta, a flusher, perhaps a bracket."""

from __future__ import annotations

from typing import Protocol, TypeVar

# What the coordinator is generic over: a write, its result, a frozen delta, a reader
# of a delta, a snapshot of the storage, and the context.
W = TypeVar("W")
R = TypeVar("R")
F = TypeVar("F")
V = TypeVar("V")
S = TypeVar("S")
C = TypeVar("C")

W_contra = TypeVar("W_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)
F_co = TypeVar("F_co", covariant=True)
V_co = TypeVar("V_co", covariant=True)
C_co = TypeVar("C_co", covariant=True)
F_contra = TypeVar("F_contra", contravariant=True)
S_co = TypeVar("S_co", covariant=True)


class Delta(Protocol[W_contra, R_co, F_co, V_co, C_co]):
    """Writes applied in memory since the last freeze.

    A delta is made from a context (counters, dictionaries: what must outlive
    it) and owns that context until `freeze` hands it to the next delta. One
    thread at a time calls it.
    """

    def apply(self, write: W_contra) -> R_co:
        """Apply `write` and return the result for its caller.

        Atomic: it changes everything or, when it raises, nothing. A
        StrandlineError reaches the caller as it is; any other exception
        arrives as RejectedError with that exception as its cause.
        """

    def size(self) -> int:
        """Return about how many bytes a flush of this delta would write."""

    def freeze(self) -> tuple[F_co, C_co]:
        """Return what is to be flushed, immutable from now on, and the context.

        Must be quick, because it holds up writes. The delta is not called again.
        """

    def reader(self) -> V_co:
        """Return what has been applied so far, as it stands now.

        Later applies must not show in it. Called only when a view is requested.
        """


class Flusher(Protocol[F_contra, S_co]):
    """Puts frozen deltas into storage, one at a time and in order.

    `flush` and `sync` may run at the same time, each in one thread at most.
    Neither is ever called again after it raised.
    """

    def flush(self, frozen: F_contra, epochs: range) -> S_co:
        """Write `frozen`, the writes of `epochs`, so that they survive this process.

        Returns a snapshot: what a reader of the storage sees now. FullError where the disk
        is full and nothing of it is stored: with a bracket, a flush may follow on that.
        """

    def sync(self) -> None:
        """Make everything that earlier flushes wrote survive a loss of power."""


class Bracket(Protocol[C_co]):
    """What a store shared by several processes does around each drain."""

    def enter(self, timeout_s: float, *, may_wait: bool = True) -> C_co:
        """Take the store's lock, catch up with what others wrote, return the context.

        Raises UnavailableError when the lock cannot be had within `timeout_s`;
        0 means one try without waiting. Without `may_wait` the thread must not block:
        UnavailableError also where a sync would be needed, and the drain is repeated
        on a thread that may.
        """

    def leave(self) -> None:
        """Release the lock. Called for each `enter` that returned; does nothing if it is not held.

        Called once more after an interrupt, such as KeyboardInterrupt, came out of it.
        """
