"""Results of `apply`, kept for the publishers of the records."""

import threading
from collections.abc import Iterator
from typing import Any, Final

from strandline.locks import holding
from strandline.views.errors import RefusedError

REFUSALS_KEPT: Final = 1_024
"""How many refusals of a partition are kept, for repeats of the same write."""


class Outcomes:
    """The results for one partition, kept only while a publisher waits for one.

    The pump adds them, publishers take them. Invariant: a publisher registers, with the next
    offset to apply as its floor, before its append; so its record lies at or above its floor,
    and is not applied without its result being kept.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.floors: list[int] = []
        """The floors of the current publishers."""
        self.refused: dict[int, str] = {}
        """Offset to reason, the latest last."""
        self._results: dict[int, Any] = {}

    def note(self, offset: int, result: Any) -> None:
        """Keep a result of `apply`, if a publisher may want it."""
        with self._lock:
            if self.floors and offset >= min(self.floors):
                self._results[offset] = result

    def refuse(self, offset: int, reason: str) -> None:
        """Record that the view skipped the record."""
        with self._lock:
            self.refused[offset] = reason
            if len(self.refused) > REFUSALS_KEPT:
                del self.refused[next(iter(self.refused))]

    @holding
    def publishing(self, floor: int) -> Iterator[None]:
        """Keep outcomes from `floor` on for as long as the block runs."""
        is_entered = False
        try:
            with self._lock:
                is_entered = True
                self.floors.append(floor)
            yield
        finally:
            if is_entered:
                with self._lock:
                    self.floors.remove(floor)
                    self._drop_below(min(self.floors, default=None))

    def take(self, partition: int, offset: int, quarantined: str | None) -> Any:
        """Return the result of `apply` for the record; None if it was applied before.

        RefusedError if it was skipped or quarantined.
        """
        with self._lock:
            result = self._results.pop(offset, None)
        reason = quarantined or self.refused.get(offset)
        if reason is None:
            return result
        raise RefusedError(
            "the view skipped this record, it stays in the log",
            partition=partition,
            offset=offset,
            reason=reason,
        ) from (result if isinstance(result, RefusedError) else None)

    def _drop_below(self, floor: int | None) -> None:
        """Drop results of other records, which would accumulate while publishers overlap."""
        if floor is None:
            self._results.clear()
            return
        for offset in [offset for offset in self._results if offset < floor]:
            del self._results[offset]
