"""Finds the next event that may be wanted, using the statistics of tier objects."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Final, cast

import pyarrow as pa

from strandline.log import RecordBound
from strandline.log.columns import EVENT_SCHEMA
from strandline.predicates.bounds import Bound, Comparison
from strandline.tiering.footer import Footer
from strandline.tiering.refuting import refutes_group
from strandline.values.instants import datetime_at

_OBJECTS_MAX: Final = 64
"""How many objects one call examines."""
_STORED_AS: Final = {
    "kind": "kind",
    "key": "_key",
    "timestamp": "_timestamp",
    "occurred_at": "occurred_at",
}


def first_cold_meeting(
    start: int, footers: Iterable[tuple[int, int, Footer | None]], bounds: Sequence[RecordBound]
) -> int:
    """Return the first offset from `start` on whose event may meet the bounds.

    If none of the examined objects has one, returns where the last of them ends.
    """
    known = [_bound(each) for each in bounds]
    at = start
    for _, stop, footer in islice(footers, _OBJECTS_MAX):
        if footer is None:
            return at
        for group, (first, following) in enumerate(footer.groups):
            if following <= at:
                continue
            if not any(refutes_group(footer, group, *each) for each in known):
                return max(at, first)
            at = min(following, stop)
            if at == stop:
                break
    return at


def _bound(given: RecordBound) -> tuple[Bound, pa.DataType]:
    comparison = cast("Comparison", given.comparison)
    if given.type is not None:
        return Bound(given.column, comparison, given.values, given.type), given.type
    name = _STORED_AS[given.column]
    arrow = EVENT_SCHEMA.field(name).type
    values = given.values
    if pa.types.is_timestamp(arrow):
        values = tuple(_moment(each) for each in values)
    return Bound(name, comparison, values), arrow


def _moment(stamp_us: int) -> datetime | None:
    try:
        return datetime_at(stamp_us)
    except OverflowError:
        return None
