"""Skips records that cannot match, by the statistics of objects in the tier."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import pyarrow as pa

from strandline.log import Log, parts_of
from strandline.predicates.bounds import Bound
from strandline.scans.sieve import Sieve
from strandline.tiering import Tier
from strandline.tiering.footer import Footer
from strandline.tiering.refuting import refutes_group
from strandline.values import Topic, TrimmedError


@dataclass(frozen=True, slots=True)
class Skipping:
    """Bounds of matching rows, on stored columns with their stored types."""

    bounds: tuple[tuple[Bound, pa.DataType], ...] = ()
    #: An Arrow expression that matching rows also meet, and its columns.
    arrow_filter: tuple[Any, pa.Schema] | None = None

    def and_also(self, bounds: Iterable[Bound], stored: Callable[[str], pa.Field | None]) -> Self:
        """Return the same with more bounds; `stored` returns a column's stored form, if any."""
        new: list[tuple[Bound, pa.DataType]] = []
        for bound in bounds:
            if bound.type is not None:
                new.append((bound, bound.type))
            elif (field := stored(bound.column)) is not None:
                new.append((replace(bound, column=field.name), field.type))
        return replace(self, bounds=(*self.bounds, *new))

    def kept(
        self, log: Log, place: tuple[Topic, int], start: int, end: int
    ) -> Iterator[tuple[int, int]]:
        """Yield the ranges of [start, end) that may hold a matching row, in order.

        Statistics exist only for records that only the tier has; all others are included.
        """
        begun = start
        tier = cast("Tier | None", parts_of(log).tier)
        if tier is None or not (self.bounds or self.arrow_filter):
            yield from [(start, end)] if start < end else ()
            return
        for first, following in self._skipped(tier, place, start, end):
            if begun < first:
                yield begun, first
            begun = following
        if begun < end:
            yield begun, end

    def _skipped(
        self, tier: Tier, place: tuple[Topic, int], start: int, end: int
    ) -> Iterator[tuple[int, int]]:
        try:
            for first, stop, footer in tier.footers(*place, start, end):
                for group_start, group_end in self._excluded(footer):
                    run = max(first, group_start), min(stop, group_end)
                    if run[0] < run[1]:
                        yield run
        except TrimmedError:
            return  # Overtaken by a trim; reading raises, or continues.

    def _excluded(self, footer: Footer | None) -> Iterator[tuple[int, int]]:
        if footer is None:
            return
        meeting = None
        if self.arrow_filter is not None:
            meeting = footer.groups_meeting(*self.arrow_filter)
        for index, run in enumerate(footer.groups):
            if (meeting is not None and index not in meeting) or self._refuted(footer, index):
                yield run

    def _refuted(self, footer: Footer, group: int) -> bool:
        return any(refutes_group(footer, group, bound, arrow) for bound, arrow in self.bounds)


def stored_bounds(sieve: Sieve, stored: pa.Schema) -> Skipping:
    """Return the bounds of a sieve's predicate, with the log's column names."""
    if sieve.predicate is None:
        return Skipping()
    bounds = [replace(each, column=sieve.stored_as(each.column)) for each in sieve.predicate.bounds]

    def field(name: str) -> pa.Field | None:
        return stored.field(name) if name in stored.names else None

    return Skipping().and_also(bounds, field)
