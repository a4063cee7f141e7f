"""Values that no caller should pass, and some that are merely odd."""

import datetime as dt
import decimal
import enum
import pathlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

import strandline as sl

_Made = Callable[[], Any]


class RaisingError(Exception):
    """What a hostile object raises; no caller may ever see it."""


class Raising:
    """An object that answers no question."""

    def _raise(self, *_: object) -> Any:
        raise RaisingError

    __eq__ = __hash__ = __str__ = __repr__ = __index__ = __int__ = __float__ = _raise
    __len__ = __iter__ = __bool__ = __lt__ = __le__ = __gt__ = __ge__ = _raise
    __contains__ = __getitem__ = __call__ = __format__ = __bytes__ = _raise


class RaisingText(str):
    """A text that fails when it is looked at as one."""

    __slots__ = ()

    def _raise(self, *_: object) -> Any:
        raise RaisingError

    encode = isascii = lower = strip = startswith = split = _raise  # type: ignore[assignment]
    __eq__ = __str__ = __len__ = __contains__ = __format__ = _raise
    __hash__ = str.__hash__


class RaisingNumber(int):
    """A number that cannot be compared."""

    def _raise(self, *_: object) -> Any:
        raise RaisingError

    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __add__ = __index__ = _raise
    __hash__ = int.__hash__


class RaisingMapping(Mapping[str, str]):
    """A mapping that fails while it is read."""

    def __getitem__(self, key: str) -> str:
        raise RaisingError

    def __iter__(self) -> Iterator[str]:
        raise RaisingError

    def __len__(self) -> int:
        return 1


class Colour(enum.IntEnum):
    """A number with a name."""

    RED = 1


def _deep() -> object:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


def _endless() -> object:
    nested: list[object] = []
    nested.append(nested)
    return nested


def _deep_type() -> pa.DataType:
    kind = pa.int64()
    for _ in range(500):
        kind = pa.list_(kind)
    return kind


VALUES: dict[str, _Made] = {
    "none": lambda: None,
    "true": lambda: True,
    "false": lambda: False,
    "zero": lambda: 0,
    "one": lambda: 1,
    "minus one": lambda: -1,
    "2**31": lambda: 2**31,
    "2**63": lambda: 2**63,
    "-2**63-1": lambda: -(2**63) - 1,
    "10**400": lambda: 10**400,
    "half": lambda: 0.5,
    "NaN": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "-infinity": lambda: float("-inf"),
    "1e300": lambda: 1e300,
    "decimal": lambda: decimal.Decimal(1),
    "decimal NaN": lambda: decimal.Decimal("sNaN"),
    "complex": lambda: 1j,
    "int enum": lambda: Colour.RED,
    "empty text": lambda: "",
    "text": lambda: "text",
    "digit": lambda: "1",
    "white space": lambda: " \t\n",
    "NUL": lambda: "a\x00b",
    "surrogate": lambda: "\ud800",
    "surrogates": lambda: "a\udfff\ud800",
    "long text": lambda: "x" * 100_000,
    "path up": lambda: "../../etc",
    "url of nowhere": lambda: "nowhere:x",
    "file of a NUL": lambda: "file:a\x00b",
    "file of a surrogate": lambda: "file:\ud800",
    "database of a surrogate": lambda: "sqlite:\udfff",
    "file of a long name": lambda: "file:" + "x" * 5000,
    "store of a surrogate": lambda: "file:///tmp/\ud800",
    "store of no host": lambda: "http://[",
    "combining": lambda: "e\u0301",
    "right to left": lambda: "\u202eabc",
    "raising text": lambda: RaisingText("text"),
    "raising number": lambda: RaisingNumber(1),
    "empty bytes": lambda: b"",
    "bytes": lambda: b"\xff\x00",
    "bytearray": lambda: bytearray(b"abc"),
    "memoryview": lambda: memoryview(b"abc"),
    "empty list": list,
    "list": lambda: [1, "a", None],
    "list of raising": lambda: [Raising()],
    "deep list": _deep,
    "list in itself": _endless,
    "tuple": lambda: (1, 2),
    "empty dict": dict,
    "dict": lambda: {1: 2},
    "dict of odd": lambda: {"a": Raising()},
    "dict of partitions": lambda: {0: -1, "x": None},
    "set": lambda: {1},
    "frozenset": frozenset,
    "range": lambda: range(3),
    "generator": lambda: (_ for _ in ()),
    "raising mapping": RaisingMapping,
    "object": object,
    "raising": Raising,
    "class": lambda: int,
    "lambda": lambda: lambda: 1,
    "module": lambda: enum,
    "exception": lambda: ValueError("x"),
    "path": lambda: pathlib.Path("x"),
    "uuid4": lambda: uuid.UUID(int=5, version=4),
    "naive time": lambda: dt.datetime(2020, 1, 1),
    "aware time": lambda: dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    "first time": lambda: dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=14))),
    "last time": lambda: dt.datetime.max.replace(tzinfo=dt.timezone(-dt.timedelta(hours=14))),
    "date": lambda: dt.date(2020, 1, 1),
    "timedelta": lambda: dt.timedelta(1),
    "event": lambda: sl.Event("k", 1),
    "durability": lambda: sl.Durability.DURABLE,
    "value kind": lambda: sl.ValueKind.BYTES,
    "latest": lambda: sl.LATEST,
    "schema": lambda: pa.schema([("id", pa.int64())]),
    "schema without columns": lambda: pa.schema([]),
    "schema of an odd name": lambda: pa.schema([pa.field(b"\xff", pa.int64())]),
    "deep schema": lambda: pa.schema([("a", _deep_type())]),
    "schema with a zone": lambda: pa.schema([("a", pa.timestamp("us", "No/Where"))]),
    "deep type": _deep_type,
    "null type": pa.null,
    "union type": lambda: pa.sparse_union([pa.field("a", pa.int64())]),
    "array": lambda: pa.array([1, 2]),
    "scalar": lambda: pa.scalar(1),
    "batch": lambda: pa.record_batch({"id": [1]}),
    "batch without rows": lambda: pa.record_batch({"id": pa.array([], pa.int64())}),
    "batch without columns": lambda: pa.RecordBatch.from_arrays([], names=[]),
    "batch of two of a name": lambda: pa.RecordBatch.from_arrays(
        [pa.array([1]), pa.array([2])], ["id", "id"]
    ),
    "batch of an odd index": lambda: pa.record_batch(
        {"id": pa.DictionaryArray.from_arrays([5], ["one"], safe=False)}
    ),
    "table": lambda: pa.table({"id": [1]}),
}
"""Each made again for each call."""
