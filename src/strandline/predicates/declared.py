"""The declared fields of a column of JSON: which names there are, and what type each has."""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final, NoReturn

import pyarrow as pa

from strandline.predicates.paths import PathText
from strandline.predicates.sql_type import OPAQUE, VARIANT, SqlType, is_nested, sql_type
from strandline.predicates.steps import shown_path
from strandline.predicates.stored import DECLARED
from strandline.values.batches import decode_schema

_SHOWN_MAX: Final = 10


def declared_fields(field: pa.Field) -> pa.DataType | None:
    """Return what is declared of a column of JSON, as a struct; None if nothing is."""
    packed = (field.metadata or {}).get(DECLARED)
    return None if packed is None else pa.struct(list(decode_schema(packed)))


def declared_type(
    declared: pa.DataType | None, place: PathText, wrong: Callable[[str, int], NoReturn]
) -> SqlType | None:
    """Return the declared type of what a path leads to; None for what has none or has parts.

    `wrong` is called with a message and its position for a path that leads nowhere.
    """
    found: Any = declared
    for number, (step, start) in enumerate(zip(place.steps, place.starts, strict=True)):
        if found is None or isinstance(found, pa.JsonType):
            return None
        before = shown_path(place.name, place.steps[:number])
        if pa.types.is_struct(found) and isinstance(step, str):
            inner = found.get_field_index(step)
            if inner < 0:
                wrong(
                    f"{before} is declared without {step}, {_nearest(found, step, before)}", start
                )
            found = found.field(inner).type
        elif pa.types.is_map(found) and isinstance(step, str):
            found = found.item_type
        elif _is_list(found) and isinstance(step, int):
            found = found.value_type
        else:
            wrong(f"{before} is declared as {_shown(found)}, and has no {step!r}", start)
    if found is None:
        return None
    kind = sql_type(found)
    return None if kind in {VARIANT, OPAQUE} or is_nested(kind) else kind


def _nearest(declared: Any, name: str, before: str) -> str:
    names = [declared.field(number).name for number in range(declared.num_fields)]
    folded = {each.lower(): each for each in names}
    near = get_close_matches(name.lower(), folded, n=1)
    if near:
        return f"the nearest is {before}.{folded[near[0]]}"
    return f"there are: {', '.join(names[:_SHOWN_MAX])}"


def _is_list(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_list(arrow) or pa.types.is_large_list(arrow))


def _shown(arrow: pa.DataType) -> str:
    kind = sql_type(arrow)
    if pa.types.is_struct(arrow):
        return "an object"
    return "an array" if _is_list(arrow) else "a map" if is_nested(kind) else str(kind)
