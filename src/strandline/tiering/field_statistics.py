"""Bounds of payload fields per row group, which help to avoid reading rows.

They are stored in the object's own metadata, as JSON. See design 0112.
"""

from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, Final

import msgspec
import pyarrow as pa

from strandline.tiering.arrow_parts import compute
from strandline.values.instants import datetime_at, us_since_epoch

FIELDS_MAX: Final = 32
TEXT_MAX: Final = 64
_EPOCH_DAY: Final = date(1970, 1, 1)
_LAST: Final = 0x10FFFF
_SURROGATES: Final = (0xD800, 0xDFFF)


class FieldBounds(msgspec.Struct, frozen=True, array_like=True):
    """The statistics of a field in one row group."""

    nulls: int
    nans: int = 0
    #: In the forms of `_PACKED`; None if there are no values, or no such form.
    low: Any = None
    high: Any = None


class DeclaredFields:
    """The declared fields of payloads: as one column, and their bounds."""

    def __init__(self, declared: pa.Schema, payloads: pa.Array) -> None:
        # Imported late: its first use makes pyarrow import pandas, which readers do not need.
        from strandline.predicates.fields import (  # noqa: PLC0415 - See above.
            field_columns,
            field_struct,
        )

        self._columns = field_columns(declared, payloads, FIELDS_MAX)
        #: None if no field can be a column.
        self.column: pa.StructArray | None = field_struct(declared, self._columns)

    def bounds(self, groups: Iterable[tuple[int, int]]) -> dict[str, list[FieldBounds]]:
        """Return the bounds of each field, by its key, in each of these groups of rows."""
        runs = list(groups)
        return {
            key: [_bounds(column.slice(start, stop - start)) for start, stop in runs]
            for key, column in self._columns.items()
        }


def _bounds(column: pa.Array) -> FieldBounds:
    nulls, values = column.null_count, column.drop_null()
    nans = 0
    if pa.types.is_floating(column.type):
        is_nan = compute().is_nan(values)
        nans = is_nan.true_count
        values = values.filter(compute().invert(is_nan))
    if not len(values):
        return FieldBounds(nulls, nans)
    ends = compute().min_max(values)
    try:
        low, high = ends["min"].as_py(), ends["max"].as_py()
    except (OverflowError, ValueError):
        return FieldBounds(nulls, nans)  # Out of the range of Python's dates.
    packed = _packed(low, is_high=False), _packed(high, is_high=True)
    return FieldBounds(nulls, nans) if None in packed else FieldBounds(nulls, nans, *packed)


def _packed(value: Any, *, is_high: bool) -> Any:
    if isinstance(value, str):
        return _shortened(value, is_high=is_high)
    if isinstance(value, datetime):
        return us_since_epoch(value)
    if isinstance(value, date):
        return (value - _EPOCH_DAY).days
    if isinstance(value, Decimal):
        return str(value)
    # JSON cannot represent infinity.
    return None if isinstance(value, float) and not isfinite(value) else value


def _shortened(text: str, *, is_high: bool) -> str | None:
    """Return a short text that bounds this one from below or above; None if there is none."""
    if len(text) <= TEXT_MAX:
        return text
    text = text[:TEXT_MAX]
    if not is_high:
        return text
    while text:
        following = ord(text[-1]) + 1
        if _SURROGATES[0] <= following <= _SURROGATES[1]:
            following = _SURROGATES[1] + 1
        if following <= _LAST:
            return text[:-1] + chr(following)
        text = text[:-1]
    return None


def unpacked(value: Any, arrow: pa.DataType) -> Any:
    """Return a bound as a Python value; None if it is not of this type."""
    if value is None:
        return None
    for is_one, take in _PACKED:
        if is_one(arrow):
            try:
                return take(value)
            except (TypeError, ValueError, ArithmeticError):
                return None
    return None


def _exactly(kind: type) -> Callable[[Any], Any]:
    def take(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError
        return value

    return take


def _number(value: Any) -> float:
    if type(value) not in {int, float}:
        raise TypeError
    return float(value)


_PACKED: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...]] = (
    (pa.types.is_boolean, _exactly(bool)),
    (pa.types.is_integer, _exactly(int)),
    (pa.types.is_floating, _number),
    (pa.types.is_decimal, lambda value: Decimal(_exactly(str)(value))),
    (pa.types.is_string, _exactly(str)),
    (pa.types.is_date32, lambda value: _EPOCH_DAY + timedelta(days=_exactly(int)(value))),
    (pa.types.is_timestamp, lambda value: datetime_at(_exactly(int)(value))),
)
