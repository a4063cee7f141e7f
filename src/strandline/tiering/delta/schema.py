"""Derives the columns of a Delta table from those of the objects."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import msgspec
import pyarrow as pa

from strandline.log.columns import RECORD_FIELDS, batch_schema
from strandline.tiering.parquet import FIELDS, PACKED, TOPIC
from strandline.typed import UnsupportedTypeError, spark_type
from strandline.values import InvalidError

APART: Final = "strandline.apart"
"""The table property that lists the paths of fields that are not columns."""
BOUNDED: Final = "delta.dataSkippingStatsColumns"
"""The table property that lists the columns by whose statistics readers may skip files."""
_PRIMITIVE: Final = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}
_WHOLE: Final = ("byte", "short", "integer", "long")
_DIGITS: Final = (3, 5, 10, 19)
_FLOATS: Final = ("float", "double")
_DECIMAL: Final = re.compile(r"decimal\((\d+),(-?\d+)\)")


def table_schema(found: Iterable[pa.Schema]) -> pa.Schema:
    """Return the columns of a table over objects with these value columns.

    InvalidError if one has packed batches, or a type that Delta tables do not support.
    """
    values = batch_schema(found)
    if PACKED in values.names:
        raise InvalidError(
            "batches of this topic are packed whole, so there are no columns for a Delta table; "
            "tier without delta"
        )
    shown = [each for each in values if each not in RECORD_FIELDS]
    return pa.schema([*RECORD_FIELDS, pa.field(TOPIC, pa.string()), *shown])


def schema_text(schema: pa.Schema) -> str:
    """Return the columns in the form of a Delta table's metadata.

    InvalidError for an unsupported type.
    """
    try:
        fields = [_field(each.name, each.type) for each in schema]
    except UnsupportedTypeError as error:
        raise InvalidError(
            "a Delta table cannot have this column; change it, or tier without delta",
            column=error.column,
            reason=error.reason,
        ) from error
    return msgspec.json.encode({"type": "struct", "fields": fields}).decode()


def needs_local_times(text: str) -> bool:
    """Whether a column has times without a zone, which readers must support."""
    return '"timestamp_ntz"' in text


def _field(name: str, arrow: pa.DataType) -> dict[str, Any]:
    return {"name": name, "type": delta_type(arrow, name), "nullable": True, "metadata": {}}


def delta_type(arrow: pa.DataType, column: str) -> Any:
    """Return Delta's name for a type; UnsupportedTypeError, an InvalidError, if there is none."""
    if pa.types.is_float16(arrow):
        raise InvalidError(
            "a Delta table has no half-precision numbers; append the column as float32, or tier "
            "without delta",
            column=column,
        )
    seen = spark_type(arrow, column).arrow
    if pa.types.is_decimal(seen):
        return f"decimal({seen.precision},{seen.scale})"
    if pa.types.is_struct(seen):
        inner = [arrow.field(number) for number in range(arrow.num_fields)]
        return {"type": "struct", "fields": [_field(each.name, each.type) for each in inner]}
    if pa.types.is_map(seen):
        return {
            "type": "map",
            "keyType": delta_type(arrow.key_type, column),
            "valueType": delta_type(arrow.item_type, column),
            "valueContainsNull": True,
        }
    if pa.types.is_list(seen):
        element = delta_type(arrow.value_type, column)
        return {"type": "array", "elementType": element, "containsNull": True}
    return _PRIMITIVE[seen]


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns in a table's metadata, and the fields that are not columns."""

    text: str | None = None
    #: Payload fields that were declared with incompatible types.
    apart: frozenset[str] = frozenset()
    #: The columns with bounds in all files; None if unknown.
    bounded: frozenset[str] | None = None

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> Self:
        """Return the columns in the action `metaData`."""
        properties = dict(metadata.get("configuration") or {})  # Pairs in a checkpoint.
        apart = frozenset(properties.get(APART, "").split())
        bounded = properties.get(BOUNDED)
        known = None if bounded is None else frozenset(bounded.split(",")) - {"", FIELDS}
        return cls(metadata["schemaString"], apart, known)

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of a table with these columns.

        Payload fields are listed together: polars wants all fields of a struct, or none.
        """
        fields = [] if self.text is None else msgspec.json.decode(self.text)["fields"]
        bounded = {*(self.bounded or ()), *(FIELDS for each in fields if each["name"] == FIELDS)}
        found = {APART: " ".join(sorted(self.apart))} if self.apart else {}
        return found | {BOUNDED: ",".join(sorted(bounded))}

    def within_bounds(self, files: Iterable[frozenset[str]]) -> Self:
        """Return the same after files with bounds of these columns were added.

        A column that has no bounds in one file is not listed: for delta-rs, which takes
        missing bounds for null, the file would hold no row that a filter selects.
        """
        known = self.bounded
        for each in files:
            known = each if known is None else known & each
        return replace(self, bounded=known or frozenset())

    def widened(self, now: str, **about: object) -> "TableColumns":
        """Return the columns of both; where both have one, with its current type, widened.

        Objects of older versions keep theirs: newer types are wider ones. Payload fields may be
        declared again with any type; a field whose types fit no column is removed. InvalidError,
        with the fields of `about`, for names that differ only by case, and for other columns
        with incompatible types.
        """
        before = [] if self.text is None else msgspec.json.decode(self.text)["fields"]
        known = {each["name"]: each for each in before}
        apart = set(self.apart)
        for each in msgspec.json.decode(now)["fields"]:
            earlier = known.get(each["name"])
            if each["name"] == FIELDS and isinstance(each["type"], dict):
                fields = _united([] if earlier is None else [earlier], [each], (), apart)
                known |= {field["name"]: field for field in fields}
                if not fields:
                    known.pop(FIELDS, None)
            elif earlier is None:
                known[each["name"]] = each
            else:
                known[each["name"]] = _widened(earlier, each, about)
        fields = list(known.values())
        _check_names(fields, about)
        text = msgspec.json.encode({"type": "struct", "fields": fields}).decode()
        return TableColumns(text, frozenset(apart), self.bounded)


def _widened(earlier: Any, now: Any, about: Mapping[str, object]) -> Any:
    """Return the current column, widened to hold earlier values; InvalidError if impossible."""
    before, after = earlier["type"], now["type"]
    if before == after or _holds(after, before):
        return now
    if _holds(before, after):
        return {**now, "type": before}
    raise InvalidError(
        "a column of a Delta table has one type, and these two are incompatible; to continue"
        " without the table delete its folder _delta_log, if it is there, and tier without delta",
        column=now["name"],
        before=before,
        now=after,
        **about,
    )


def _check_names(fields: Sequence[Any], about: Mapping[str, object]) -> None:
    """Raise InvalidError for two names that are equal to readers, which ignore case."""
    known: dict[str, str] = {}
    for each in fields:
        other = known.setdefault(each["name"].lower(), each["name"])
        if other != each["name"]:
            raise InvalidError(
                "columns of a Delta table differ in more than case; rename one of these, or delete "
                "the folder _delta_log, if it is there, and tier without delta",
                column=each["name"],
                other=other,
                **about,
            )


def _united(
    before: Sequence[Any], now: Sequence[Any], within: tuple[str, ...], apart: set[str]
) -> list[Any]:
    """Return the fields of both, without those that are, or become, incompatible."""
    known = {each["name"].lower(): each for each in before}
    for each in now:
        name = each["name"].lower()
        path = (*within, name)
        earlier = known.get(name, each)
        kind = _common(earlier["type"], each["type"], path, apart)
        if kind is None:
            apart.add(".".join(path))
        known[name] = {**earlier, "type": kind}
    return [
        each
        for name, each in known.items()
        if each["type"] is not None and ".".join((*within, name)) not in apart
    ]


def _common(before: Any, now: Any, path: tuple[str, ...], apart: set[str]) -> Any:
    """Return a type that holds the values of both for every reader; None if there is none."""
    if isinstance(before, dict) and isinstance(now, dict):
        fields = _united(before["fields"], now["fields"], path, apart)
        return {"type": "struct", "fields": fields} if fields else None
    if before == now:
        return before
    if before in _WHOLE and now in _WHOLE:
        return max(before, now, key=_WHOLE.index)
    return None


def _holds(wide: Any, narrow: Any) -> bool:
    """Whether a different type can hold all values of another one."""
    if not isinstance(wide, str) or not isinstance(narrow, str):
        return False
    for order in (_WHOLE, _FLOATS):
        if wide in order and narrow in order:
            return order.index(wide) > order.index(narrow)
    new, old = _digits(wide), _digits(narrow)
    return new is not None and old is not None and new[0] >= old[0] and new[1] >= old[1]


def _digits(kind: str) -> tuple[int, int] | None:
    """Return the digits of a decimal, or an integer as one, before and after the point."""
    if kind in _WHOLE:
        return _DIGITS[_WHOLE.index(kind)], 0
    found = _DECIMAL.fullmatch(kind)
    return found and (int(found[1]) - int(found[2]), int(found[2]))
