"""What a store provides for the coordinator: a delta, a flusher, perhaps a bracket."""

from __future__ import annotations

from typing import Protocol, TypeVar

# Type parameters of the coordinator: a write, its result, a frozen delta, a reader
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

    A delta is made from a context (counters, dictionaries, and other state that must
    outlive it) and owns that context until `freeze` hands it to the next delta. One
    thread at a time calls it.
    """

    def apply(self, write: W_contra) -> R_co:
        """Apply `write` and return the result for its caller.

        Atomic: if it raises, it changes nothing. A StrandlineError reaches the caller
        unchanged; any other exception becomes the cause of a RejectedError.
        """

    def size(self) -> int:
        """Return approximately how many bytes a flush of this delta would write."""

    def freeze(self) -> tuple[F_co, C_co]:
        """Return what to flush, immutable from now on, and the context.

        Must be quick: writes wait for it. The delta is not called again.
        """

    def reader(self) -> V_co:
        """Return a reader of what has been applied so far.

        Later applies must not change it. Called only when a view is requested.
        """


class Flusher(Protocol[F_contra, S_co]):
    """Writes frozen deltas to storage, one at a time and in order.

    `flush` and `sync` may run at the same time, each in one thread at most.
    Neither is ever called again after it raised.
    """

    def flush(self, frozen: F_contra, epochs: range) -> S_co:
        """Write `frozen`, the writes of `epochs`, so that they survive this process.

        Returns a snapshot: what a reader of the storage sees now. FullError if the disk
        is full and nothing of it was stored: with a bracket, another flush may follow.
        """

    def sync(self) -> None:
        """Make everything that earlier flushes wrote survive a power loss."""


class Bracket(Protocol[C_co]):
    """What a store shared by several processes does before and after each drain."""

    def enter(self, timeout_s: float, *, may_wait: bool = True) -> C_co:
        """Take the store's lock, catch up with other processes' writes, return the context.

        UnavailableError if the lock is not free within `timeout_s`; 0 means one try
        without waiting. Without `may_wait` the thread must not block: UnavailableError
        also if a sync would be needed; the drain is repeated in a thread that may block.
        """

    def leave(self) -> None:
        """Release the lock. Called after each `enter` that returned; no effect if it is not held.

        Called again if an interrupt, such as KeyboardInterrupt, came out of it.
        """
