"""Computes operations on columns of JSON, structs, maps and arrays, and conditionals."""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strandline.predicates.node import Node
from strandline.predicates.rowwise import Kernel, values_of
from strandline.predicates.shredding import Shredded, Shredder
from strandline.predicates.sql_type import conversion
from strandline.predicates.variant import typed

LOOKS: Final = frozenset({"variant_get", "try_variant_get"})
"""The operations that read values of JSON."""

_call: Final = pc.call_function
_NO: Final = pa.scalar(False)


def _look(node: Node) -> Kernel:
    path, kind, is_try = node.detail, node.type, node.op == "try_variant_get"
    # JSON inside a field of another value is parsed for each path.
    alone = Shredder([path])

    def looked(found: Any) -> Any:
        shredded = found if isinstance(found, Shredded) else alone(found)
        return typed(shredded.values(path), lambda: shredded.exact(path), kind, is_try=is_try)

    return looked


def _converted(node: Node, stored: pa.DataType, kernel: Kernel) -> Kernel:
    change = conversion(node.type, stored)
    return kernel if change is None else lambda column: change(kernel(column))


def _field(node: Node) -> Kernel:
    name, stored = node.detail
    return _converted(node, stored, lambda structs: pc.struct_field(structs, [name]))


def _element(node: Node) -> Kernel:
    index, stored = node.detail
    # For lists, a position beyond the end is ArrowInvalid.
    return _converted(node, stored, lambda lists: _call("list_element", [lists, pa.scalar(index)]))


def _lookup(node: Node) -> Kernel:
    key, kind, stored = node.detail
    options = pc.MapLookupOptions(pa.scalar(key, kind), "first")
    return _converted(node, stored, lambda maps: _call("map_lookup", [maps], options))


def _size(column: Any) -> Any:
    if not pa.types.is_map(column.type):
        return _call("list_value_length", [column]).cast(pa.int32())
    return pa.array(
        [None if each is None else len(each) for each in column.to_pylist()], pa.int32()
    )


def _array_contains(lists: Any, wanted: Any) -> Any:
    found: list[bool | None] = []
    for items, value in zip(values_of(lists), values_of(wanted), strict=False):
        if items is None or value is None:
            found.append(None)
        elif any(_is_equal(item, value) for item in items):
            found.append(True)
        else:
            found.append(None if None in items else False)
    return pa.array(found, pa.bool_())


def _is_equal(a: Any, b: Any) -> bool:
    return a is not None and bool(a == b or (a != a and b != b))  # noqa: PLR0124 - NaN.


def _case(*inputs: Any) -> Any:
    count = len(inputs) // 2
    found = inputs[-1]
    for number in reversed(range(count)):
        is_met = _call("coalesce", [inputs[number], _NO])
        found = _call("if_else", [is_met, inputs[count + number], found])
    return found


PLAIN: Final[dict[str, Kernel]] = {
    "size": _size,
    "array_contains": _array_contains,
    "case": _case,
    "coalesce": lambda *inputs: _call("coalesce", list(inputs)),
}

BUILT: Final[dict[str, Callable[[Node], Kernel]]] = {
    **dict.fromkeys(LOOKS, _look),
    "field": _field,
    "element": _element,
    "lookup": _lookup,
}
