"""Arrays in PostgreSQL's binary format: one parameter holds a column of many rows.

So one statement, prepared once, takes any number of rows. See design 0129.
"""

import struct
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, ClassVar, Final

from psycopg import pq
from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper

_HEADER: Final = struct.Struct(">iiIii")
_EMPTY: Final = struct.Struct(">iiI")
_NULL: Final = struct.pack(">i", -1)
_LENGTH: Final = struct.Struct(">i")
_INT4: Final = struct.Struct(">ii")
_INT8: Final = struct.Struct(">iq")


class PackedArray(bytes):
    """An array in the form in which it is sent. Each element type has a subclass.

    Its values are all of one type, or None, which is NULL. An array with only None is sent as
    an empty one.
    """

    element: ClassVar[int]

    @classmethod
    def of(cls, values: Sequence[Any]) -> "PackedArray":
        """Encode these values."""
        count, nulls = len(values), values.count(None)
        if nulls == count:
            return cls(_EMPTY.pack(0, 0, cls.element))
        if not nulls:
            elements = cls._elements(values)
        else:
            present = iter(cls._elements([value for value in values if value is not None]))
            elements = [_NULL if value is None else next(present) for value in values]
        return cls(b"".join((_HEADER.pack(1, nulls > 0, cls.element, count, 1), *elements)))

    @classmethod
    def _elements(cls, values: Sequence[Any]) -> Iterable[bytes]:
        """Encode each value, preceded by its length; none is None."""
        raise NotImplementedError


class Int4Array(PackedArray):
    """An array of `int4`."""

    element = 23

    @classmethod
    def _elements(cls, values: Sequence[Any]) -> Iterable[bytes]:
        return map(_INT4.pack, repeat(4), values)


class Int8Array(PackedArray):
    """An array of `int8`."""

    element = 20

    @classmethod
    def _elements(cls, values: Sequence[Any]) -> Iterable[bytes]:
        return map(_INT8.pack, repeat(8), values)


class ByteaArray(PackedArray):
    """An array of `bytea`."""

    element = 17

    @classmethod
    def _elements(cls, values: Sequence[Any]) -> Iterable[bytes]:
        return map(bytes.__add__, map(_LENGTH.pack, map(len, values)), values)


class EncodedArray(ByteaArray):
    """An array of `bytea`, made of texts."""

    @classmethod
    def _elements(cls, values: Sequence[Any]) -> Iterable[bytes]:
        return super()._elements(list(map(str.encode, values)))


class TextArray(EncodedArray):
    """An array of `text`."""

    element = 25


def _dumper(array_oid: int) -> type[Dumper]:
    class ArrayDumper(Dumper):
        """Sends an encoded array."""

        format = pq.Format.BINARY
        oid = array_oid

        def dump(self, obj: Any) -> bytes:
            return bytes(obj)

    return ArrayDumper


_DUMPERS: Final = {
    Int4Array: _dumper(1007),
    Int8Array: _dumper(1016),
    ByteaArray: _dumper(1001),
    EncodedArray: _dumper(1001),
    TextArray: _dumper(1009),
}


def register_arrays(context: AdaptContext) -> None:
    """Register the dumpers of these classes on a connection or cursor."""
    for kind, dumper in _DUMPERS.items():
        context.adapters.register_dumper(kind, dumper)
