"""Whether a coordinator still runs, and if not, why."""

from __future__ import annotations

from collections.abc import Callable

from strandline.values import FailedError, StrandlineError, UnknownError


class Ending:
    """The reason that every later call raises; none while the coordinator runs.

    The first reason stays, except that a failure replaces an orderly end.
    """

    __slots__ = ("cause", "reason")

    def __init__(self) -> None:
        self.reason: Callable[[], StrandlineError] | None = None
        self.cause: BaseException | None = None

    def settle(self, reason: Callable[[], StrandlineError]) -> None:
        """Raise `reason` in all calls from now on."""
        if self.reason is None:
            self.reason = reason

    def fail(self, cause: BaseException) -> None:
        """Raise FailedError with the first cause in all calls from now on."""
        if self.cause is None:
            self.cause = cause
            self.reason = lambda: FailedError(cause)

    def cut_short(self) -> StrandlineError:
        """Return the error of a write that was taken and cannot be finished."""
        assert self.reason is not None
        error = self.reason()
        return UnknownError(error.cause) if isinstance(error, FailedError) else error

    def check(self) -> None:
        """Raise the reason, if there is one."""
        if self.reason is not None:
            raise self.reason()
