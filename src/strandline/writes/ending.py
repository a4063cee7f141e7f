"""Whether a coordinator still lives, and if not, why."""

from __future__ import annotations

from collections.abc import Callable

from strandline.values import StrandlineError


class Ending:
    """Nothing yet, or the reason that every later call is told. The first reason stays."""

    __slots__ = ("reason",)

    def __init__(self) -> None:
        self.reason: Callable[[], StrandlineError] | None = None

    def settle(self, reason: Callable[[], StrandlineError]) -> None:
        """Give `reason` to all who ask from now on."""
        if self.reason is None:
            self.reason = reason

    def check(self) -> None:
        """Raise the reason, if there is one."""
        if self.reason is not None:
            raise self.reason()
