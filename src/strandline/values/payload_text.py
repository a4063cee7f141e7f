"""Declared payload fields as text: `amount BIGINT, customer.country STRING`."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Final, NoReturn

import pyarrow as pa

from strandline.values.errors import InvalidError
from strandline.values.names import check_text

_TYPES: Final[dict[str, pa.DataType]] = {
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "VARIANT": pa.json_(),
}
_INSTEAD: Final = {
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR"), "STRING"),
    **dict.fromkeys(("FLOAT", "REAL"), "DOUBLE"),
    **dict.fromkeys(("LONG", "INT8"), "BIGINT"),
    "JSON": "VARIANT",
    "NUMERIC": "DECIMAL(p,s)",
}
_DECIMAL: Final = "DECIMAL"
_STEP: Final = re.compile(r"(?:([^\W\d]\w*)|`([^`]+)`)(\[\])?")
_TYPE: Final = re.compile(r"\s+([A-Za-z_]\w*)\s*(?:\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\))?\s*")
_SPACE: Final = re.compile(r"\s*")
_ITEM: Final = "[]"
_DIGITS_MAX: Final = 38

Branch = dict[str, Any]


def parse_payload_schema(text: str) -> pa.Schema:
    """Return the schema that a text declares; InvalidError with the position of an error.

    Fields are separated by commas; dots lead into objects, `[]` into arrays. Types are those
    of Spark SQL that JSON has, and VARIANT for any JSON value.
    """
    root: Branch = {}
    for steps, arrow, at in _FieldTexts(check_text(text, "payload_schema")).fields():
        _add(root, steps, arrow, (text, at))
    return pa.schema([pa.field(name, _type_of(inner)) for name, inner in root.items()])


class _FieldTexts:
    """Reads one text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = _end(_SPACE.match(text))

    def fields(self) -> Iterator[tuple[list[str], pa.DataType, int]]:
        """Yield each field: the steps that lead to it, its type, and where it begins."""
        while True:
            begun, steps = self._at, self._steps()
            yield steps, self._type(), begun
            if self._at == len(self._text):
                return
            if self._text[self._at] != ",":
                self._wrong("a comma separates fields")
            self._at = _end(_SPACE.match(self._text, self._at + 1))

    def _steps(self) -> list[str]:
        steps: list[str] = []
        while True:
            found = _STEP.match(self._text, self._at)
            if found is None:
                self._wrong("a field is a name, such as amount, customer.country or `odd name`")
            steps.append(found[1] or found[2])
            if found[3]:
                steps.append(_ITEM)
            self._at = found.end()
            if not self._text.startswith(".", self._at):
                return steps
            self._at += 1

    def _type(self) -> pa.DataType:
        found = _TYPE.match(self._text, self._at)
        if found is None:
            self._wrong("a type follows the name, as in amount BIGINT")
        name, at = found[1].upper(), found.start(1)
        if name == _DECIMAL and found[2]:
            self._at = at
            made = self._decimal(int(found[2]), int(found[3]))
            self._at = found.end()
            return made
        if name not in _TYPES or found[2]:
            self._at = at
            self._wrong(*self._unknown(name))
        self._at = found.end()
        return _TYPES[name]

    def _decimal(self, precision: int, scale: int) -> pa.DataType:
        if not 1 <= precision <= _DIGITS_MAX or scale > precision:
            self._wrong("a decimal has a precision of 1 to 38, and a scale up to it")
        return pa.decimal128(precision, scale)

    def _unknown(self, name: str) -> tuple[str, list[str]]:
        known = [*_TYPES, "DECIMAL(p,s)"]
        near = get_close_matches(name, known, n=1, cutoff=0.5)
        near = [_INSTEAD[name]] if name in _INSTEAD else near
        return f"a type is one of {', '.join(known)}", near

    def _wrong(self, message: str, near: list[str] | None = None) -> NoReturn:
        raise InvalidError(message, position=self._at, near=near or [], text=self._text)


def _end(found: "re.Match[str] | None") -> int:
    assert found is not None
    return found.end()


def _add(branch: Branch, steps: list[str], arrow: pa.DataType, place: tuple[str, int]) -> None:
    *outer, last = steps
    for step in outer:
        branch = branch.setdefault(step, {})
        if not isinstance(branch, dict):
            _twice(steps, place)
    if last in branch or (branch and (last == _ITEM) != (_ITEM in branch)):
        _twice(steps, place)
    branch[last] = arrow


def _twice(steps: list[str], place: tuple[str, int]) -> NoReturn:
    text, at = place
    raise InvalidError(
        "a field is declared once, and with one type",
        field=".".join(steps).replace(f".{_ITEM}", _ITEM),
        position=at,
        text=text,
    )


def _type_of(inner: Any) -> pa.DataType:
    if not isinstance(inner, dict):
        return inner
    if _ITEM in inner:
        return pa.list_(_type_of(inner[_ITEM]))
    return pa.struct([pa.field(name, _type_of(each)) for name, each in inner.items()])


def shown_payload_text(schema: pa.Schema) -> str | None:
    """Return the text that declares this schema; None if there is none, as for maps."""
    try:
        return ", ".join(f"{path} {kind}" for path, kind in _shown(list(schema), ""))
    except KeyError:
        return None


def _shown(fields: list[pa.Field], within: str) -> Iterator[tuple[str, str]]:
    for field in fields:
        plain = _STEP.fullmatch(field.name)
        name = field.name if plain is not None and plain[1] and not plain[3] else f"`{field.name}`"
        yield from _shown_type(field.type, f"{within}{name}")


def _shown_type(arrow: Any, path: str) -> Iterator[tuple[str, str]]:
    if pa.types.is_struct(arrow):
        yield from _shown([arrow.field(n) for n in range(arrow.num_fields)], f"{path}.")
    elif pa.types.is_list(arrow):
        yield from _shown_type(arrow.value_type, f"{path}{_ITEM}")
    elif pa.types.is_decimal128(arrow):
        yield path, f"{_DECIMAL}({arrow.precision},{arrow.scale})"
    else:
        yield path, _NAMES[arrow]


_NAMES: Final = {arrow: name for name, arrow in _TYPES.items()}
