"""The declared fields of payloads as columns, with the same values as in predicates."""

from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa

from strandline.predicates.bounds import field_key
from strandline.predicates.node import Node
from strandline.predicates.program import Program
from strandline.predicates.sql_type import OPAQUE, VARIANT, is_nested, sql_type
from strandline.predicates.steps import Path

_PAYLOAD = pa.schema([pa.field("payload", pa.json_())])
_PROGRAMS_KEPT = 16
_REFUSED = frozenset(" ,;{}()\n\t=")


def field_columns(declared: pa.Schema, payloads: pa.Array, most: int) -> dict[str, pa.Array]:
    """Return the first `most` scalar fields of payloads, by their keys in bounds.

    Values are the same as in predicates: NULL if one is missing or of another type.
    `payloads` are JSON texts. Values in arrays and maps are not fields.
    """
    keys, program = _program(declared, most)
    texts = pa.ExtensionArray.from_storage(pa.json_(), payloads)
    batch = pa.RecordBatch.from_arrays([texts], schema=_PAYLOAD)
    return dict(zip(keys, program.run(batch) if keys else (), strict=True))


def field_struct(declared: pa.Schema, found: dict[str, pa.Array]) -> pa.StructArray | None:
    """Return the columns of `field_columns` as one, nested as declared; None if there are none.

    Names that tables cannot have are left out: those with a character that Parquet readers
    refuse, or that differ from another name only by case.
    """
    by_path = {
        node.detail: found[key]
        for node in _nodes(list(declared), ())
        if (key := field_key(node)) is not None and key in found
    }
    return _nested(list(declared), (), by_path)


def _nested(
    fields: list[pa.Field], within: Path, columns: dict[Path, pa.Array]
) -> pa.StructArray | None:
    made: dict[str, pa.Array] = {}
    seen: set[str] = set()
    for field in fields:
        path = (*within, field.name)
        column = columns.get(path)
        if pa.types.is_struct(field.type):
            inner = [field.type.field(number) for number in range(field.type.num_fields)]
            column = _nested(inner, path, columns)
        is_named = not _REFUSED.intersection(field.name) and field.name.lower() not in seen
        if column is not None and field.name and is_named:
            made[field.name] = column
            seen.add(field.name.lower())
    return pa.StructArray.from_arrays(list(made.values()), list(made)) if made else None


@lru_cache(_PROGRAMS_KEPT)
def _program(declared: pa.Schema, most: int) -> tuple[list[str], Program]:
    found = {
        key: node for node in _nodes(list(declared), ()) if (key := field_key(node)) is not None
    }
    keys = list(found)[:most]
    return keys, Program([found[key] for key in keys], _PAYLOAD)


def _nodes(fields: list[pa.Field], within: Path) -> Iterator[Node]:
    column = Node("column", VARIANT, (), "payload")
    for field in fields:
        path, kind = (*within, field.name), sql_type(field.type)
        if pa.types.is_struct(field.type):
            inner = [field.type.field(number) for number in range(field.type.num_fields)]
            yield from _nodes(inner, path)
        elif kind not in {VARIANT, OPAQUE} and not is_nested(kind):
            yield Node("try_variant_get", kind, (column,), path)
