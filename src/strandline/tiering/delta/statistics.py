"""A Delta table's statistics of an object, which let readers skip it."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import msgspec
import pyarrow as pa

from strandline.tiering.footer import ColumnStatistics, Footer

_TEXT_MAX: Final = 64
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_TIME_MAX: Final = datetime.max.replace(tzinfo=UTC) - _MILLISECOND


def statistics_text(footer: Footer) -> str:
    """Return the row count, and bounds and null counts of the columns that have them."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for path in footer.leaves:
        groups = [footer.leaf_statistics(index, path) for index in range(len(footer.groups))]
        known = [each for each in groups if each is not None]
        if len(known) < len(groups):
            continue
        if all(each.nulls is not None for each in known):
            _within(nulls, path)[path[-1]] = sum(each.nulls or 0 for each in known)
        bounds = _bounds(known)
        if bounds is not None:
            _within(low, path)[path[-1]], _within(high, path)[path[-1]] = bounds
    found = {"numRecords": footer.rows, "minValues": low, "maxValues": high, "nullCount": nulls}
    return msgspec.json.encode(found).decode()


def bounded_columns(statistics: str) -> frozenset[str]:
    """Return the columns that have bounds in the statistics of a file, without structs."""
    found = msgspec.json.decode(statistics)["minValues"].items()
    # Other names would need quotes in a property.
    return frozenset(
        name for name, low in found if not isinstance(low, dict) and _PLAIN.fullmatch(name)
    )


def _within(values: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return the dictionary for the struct that a field is in, created if missing."""
    for name in path[:-1]:
        values = values.setdefault(name, {})
    return values


def _bounds(groups: Sequence[ColumnStatistics]) -> tuple[Any, Any] | None:
    """Return the minimum and maximum, in Delta's form; None if unknown.

    Unknown for all floating-point numbers: NaN counts as greatest, and Parquet ignores it.
    """
    valued = [each for each in groups if not each.is_null]
    if not valued or any(each.low is None for each in valued):
        return None
    kind = valued[0].type
    low, high = min(each.low for each in valued), max(each.high for each in valued)
    if pa.types.is_integer(kind):
        return low, high
    if pa.types.is_date32(kind):
        return _day(low), _day(high)
    if pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit != "ns":
        # Greater values cannot be rounded up.
        bounds = _time(low, upwards=False), _time(min(high, _TIME_MAX), upwards=True)
        return bounds if high <= _TIME_MAX else None
    if isinstance(low, str) and isinstance(high, str) and max(len(low), len(high)) <= _TEXT_MAX:
        return low, high
    return None


def _day(value: date) -> str:
    return value.isoformat()


def _time(value: datetime, *, upwards: bool) -> str:
    """Return a time in whole milliseconds, the resolution of the format."""
    since = value - _EPOCH
    whole = since // _MILLISECOND
    if upwards and since % _MILLISECOND:
        whole += 1
    text = (_EPOCH + whole * _MILLISECOND).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
