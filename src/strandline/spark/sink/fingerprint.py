"""A hash of the rows of a batch, independent of their order and their division into tasks.

A row's hash is computed from its columns by name; the hashes of all rows are added. A null adds
nothing, so a missing column and a null column are equal; integers are hashed by value, so a
wider type gives the same hash. It detects accidents, not manipulation.
"""

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strandline._core import IS_COMPILED

if IS_COMPILED:
    from strandline._core.core import text_numbers

Words = npt.NDArray[np.uint64]

_MASK: Final = (1 << 64) - 1
_WORD: Final = 8
#: Longer texts are hashed one by one.
_SHORT_BYTES: Final = 1024
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
_ONE: Final = np.uint64(1)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The number of rows, and the sum of their hashes."""

    rows: int = 0
    total: int = 0

    def __add__(self, other: "Fingerprint") -> "Fingerprint":
        return Fingerprint(self.rows + other.rows, (self.total + other.total) & _MASK)


def fingerprint(rows: pa.RecordBatch) -> Fingerprint:
    """Return the fingerprint of these rows."""
    numbers = _of_fields(rows.schema.names, rows.columns, rows.num_rows)
    return Fingerprint(rows.num_rows, int(_mixed(numbers).sum(dtype=np.uint64)))


def _mixed(words: Words) -> Words:
    """Mix words: each bit of a result depends on every bit of its word."""
    found = words + _STEP
    found = (found ^ (found >> _30)) * _FIRST
    found = (found ^ (found >> _27)) * _SECOND
    result: Words = found ^ (found >> _31)
    return result


def _of_fields(names: list[str], columns: list[pa.Array], rows: int) -> Words:
    total = np.zeros(rows, np.uint64)
    for name, column in zip(names, columns, strict=True):
        if column.null_count == rows:
            continue
        found = _mixed(_of_array(column) ^ np.uint64(_of_bytes(name.encode())))
        total += np.where(_present(column), found, np.uint64(0))
    return total


def _present(column: pa.Array) -> npt.NDArray[np.bool_]:
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    found: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return found


def _of_array(column: pa.Array) -> Words:
    """Return a hash for each value; an arbitrary one for a null."""
    arrow = column.type
    if pa.types.is_struct(arrow):
        names = [arrow.field(n).name for n in range(arrow.num_fields)]
        return _of_fields(names, column.flatten(), len(column))
    if pa.types.is_map(arrow):
        return _of_map(column)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return _of_list(column, _numbered(column, _of_elements(column.flatten())))
    if pa.types.is_fixed_size_list(arrow):
        return _of_array(column.cast(pa.list_(arrow.value_type)))
    if _is_text(arrow):
        return _of_texts(column.cast(pa.large_binary()))
    return _of_fixed(column)


def _is_text(arrow: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(arrow)
        or pa.types.is_large_string(arrow)
        or pa.types.is_binary(arrow)
        or pa.types.is_large_binary(arrow)
        or pa.types.is_fixed_size_binary(arrow)
    )


def _of_elements(column: pa.Array) -> Words:
    return np.where(_present(column), _mixed(_of_array(column)), np.uint64(0))


def _of_map(column: pa.Array) -> Words:
    """Return hashes that do not depend on the order of the entries."""
    entries = pa.ListArray.from_arrays(
        column.offsets, pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
    )
    return _of_list(entries, _mixed(_of_array(entries.flatten())))


def _lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    counted: Any = column.value_lengths().fill_null(0)
    found: npt.NDArray[np.int64] = counted.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _numbered(column: pa.Array, elements: Words) -> Words:
    """Return the elements' hashes, each mixed with its index in its list."""
    lengths = _lengths(column)
    starts = np.cumsum(lengths) - lengths
    places = np.arange(len(elements)) - np.repeat(starts, lengths)
    return _mixed(elements + _mixed(places.astype(np.uint64)))


def _of_list(column: pa.Array, elements: Words) -> Words:
    lengths = _lengths(column)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(elements, dtype=np.uint64)])
    ends = np.cumsum(lengths)
    total: Words = sums[ends] - sums[ends - lengths]
    return total + _mixed(lengths.astype(np.uint64))


def _of_fixed(column: pa.Array) -> Words:
    arrow = column.type
    if pa.types.is_boolean(arrow):
        column = column.cast(pa.uint8())
    elif pa.types.is_integer(arrow) and arrow.bit_width < 64:  # noqa: PLR2004 # Of a word.
        column = column.cast(pa.int64())
    elif pa.types.is_floating(arrow) and arrow.bit_width < 64:  # noqa: PLR2004
        column = column.cast(pa.float64())
    width = column.type.byte_width
    held = column.buffers()[1]
    if held is None:
        return np.zeros(len(column), np.uint64)
    unit = min(width, _WORD)
    per_value = width // unit
    raw = np.frombuffer(held, f"<u{unit}")
    raw = raw[column.offset * per_value : (column.offset + len(column)) * per_value]
    words = raw.astype(np.uint64).reshape(len(column), per_value)
    found = np.zeros(len(column), np.uint64)
    for each in range(per_value):
        found = _mixed(found ^ words[:, each])
    return found


def _of_texts(column: pa.Array) -> Words:
    """Return the hashes of texts with offsets of 64 bits."""
    count = len(column)
    held = column.buffers()
    if not count or held[2] is None:
        return _mixed(np.zeros(count, np.uint64))
    raw_offsets = np.frombuffer(held[1], np.int64)
    offsets = raw_offsets[column.offset : column.offset + count + 1]
    starts, lengths = offsets[:-1], np.diff(offsets)
    if IS_COMPILED:
        packed = text_numbers(held[1], column.offset, count, held[2])
        found = np.frombuffer(packed, np.uint64)
    else:
        found = _of_short_texts(held[2], starts, lengths)
    is_long = lengths > _SHORT_BYTES
    if is_long.any():
        content = memoryview(held[2])
        found = found.copy()
        for index in np.flatnonzero(is_long):
            start = int(starts[index])
            found[index] = _of_bytes(content[start : start + int(lengths[index])])
    return found


def _of_short_texts(
    held: pa.Buffer, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Words:
    """Return the hashes of short texts, eight bytes of all texts at a time."""
    padded = np.frombuffer(held.to_pybytes() + bytes(_WORD), np.uint8)
    # A word begins at each byte.
    words = np.ndarray((len(padded) - _WORD + 1,), "<u8", padded, strides=(1,))
    found = _mixed(lengths.astype(np.uint64))
    at = np.flatnonzero((lengths <= _SHORT_BYTES) & (lengths > 0))
    done = 0
    while len(at):
        left = lengths[at] - done
        bits = (np.minimum(left, _WORD) * 8).astype(np.uint64)
        # A shift by 64 would not change a word.
        mask = (_ONE << (bits - _ONE) << _ONE) - _ONE
        found[at] = _mixed(found[at] ^ (words[starts[at] + done] & mask))
        done += _WORD
        at = at[left > _WORD]
    return found


def _of_bytes(content: bytes | memoryview) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=_WORD).digest(), "little")
