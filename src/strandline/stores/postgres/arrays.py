"""Columns of many rows as arrays in the server's own binary form, each one value of a statement.

One statement takes any number of rows, and is prepared once. See design 0129.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from psycopg import pq
from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper

_HEADER: Final = struct.Struct(">iiIii")
_NULL: Final = struct.pack(">i", -1)
_LENGTH: Final = struct.Struct(">i")
_INT4: Final = struct.Struct(">ii")
_INT8: Final = struct.Struct(">iq")


class PackedArray(bytes):
    """An array as it is sent. Each kind of element has a class, by which its type is known."""

    element: ClassVar[int]

    @classmethod
    def of(cls, values: Sequence[Any]) -> "PackedArray":
        """Return these values, in which None is NULL."""
        count, nulls = len(values), values.count(None)
        elements = _NULL * count if nulls == count else b"".join(cls._elements(values))
        return cls(_HEADER.pack(1, nulls > 0, cls.element, count, 1) + elements)

    @classmethod
    def _elements(cls, values: Sequence[Any]) -> Iterable[bytes]:
        raise NotImplementedError


class Int4Array(PackedArray):
    """Of `int4`."""

    element = 23

    @classmethod
    def _elements(cls, values: Sequence[Any]) -> Iterable[bytes]:
        return [_NULL if value is None else _INT4.pack(4, value) for value in values]


class Int8Array(PackedArray):
    """Of `int8`."""

    element = 20

    @classmethod
    def _elements(cls, values: Sequence[Any]) -> Iterable[bytes]:
        return [_NULL if value is None else _INT8.pack(8, value) for value in values]


class ByteaArray(PackedArray):
    """Of `bytea`."""

    element = 17

    @classmethod
    def _elements(cls, values: Sequence[Any]) -> Iterable[bytes]:
        return _sized(values)


class TextArray(PackedArray):
    """Of `text`."""

    element = 25

    @classmethod
    def _elements(cls, values: Sequence[Any]) -> Iterable[bytes]:
        return _sized([None if each is None else each.encode() for each in values])


def _sized(values: Sequence[bytes | None]) -> Iterable[bytes]:
    for value in values:
        if value is None:
            yield _NULL
        else:
            yield _LENGTH.pack(len(value))
            yield value


def _dumper(array_oid: int) -> type[Dumper]:
    class ArrayDumper(Dumper):
        """Sends an array as it is."""

        format = pq.Format.BINARY
        oid = array_oid

        def dump(self, obj: Any) -> bytes:
            return bytes(obj)

    return ArrayDumper


_DUMPERS: Final = {
    Int4Array: _dumper(1007),
    Int8Array: _dumper(1016),
    ByteaArray: _dumper(1001),
    TextArray: _dumper(1009),
}


def register_arrays(context: AdaptContext) -> None:
    """Have a connection, or a cursor, send arrays of these classes."""
    for kind, dumper in _DUMPERS.items():
        context.adapters.register_dumper(kind, dumper)
