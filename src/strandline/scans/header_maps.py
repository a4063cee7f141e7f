"""Converts headers of events from JSON to maps."""

from array import array
from collections.abc import Sequence, Sized
from itertools import accumulate
from typing import Final

import msgspec
import pyarrow as pa

from strandline._core import IS_COMPILED

if IS_COMPILED:
    from strandline._core.core import header_columns

decode_headers: Final = msgspec.json.Decoder(dict[str, str]).decode


def header_maps(stored: pa.Array) -> pa.Array:
    """Return headers, stored as JSON, as maps."""
    if IS_COMPILED and not stored.null_count and len(stored):
        texts = stored.cast(pa.large_binary())
        _, offsets, content = texts.buffers()
        parts = header_columns(offsets, texts.offset, len(texts), content or b"")
        if parts is not NotImplemented:
            starts, *columns = parts
            ends = pa.Array.from_buffers(pa.int32(), len(texts) + 1, [None, pa.py_buffer(starts)])
            return pa.MapArray.from_arrays(ends, _text(*columns[:2]), _text(*columns[2:]))
    return _decoded(stored)


def _text(starts: bytes, content: bytes) -> pa.Array:
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.string(), len(starts) // 4 - 1, buffers)


def _decoded(stored: pa.Array) -> pa.Array:
    """Do the same in Python. Repeated headers are decoded once."""
    found = stored.dictionary_encode()
    maps = [decode_headers(text) for text in found.dictionary.to_pylist()]
    # Made of buffers: for the first array that it makes of a list, pyarrow imports pandas,
    # which takes each process of Spark's 0.2 s.
    ends = pa.Array.from_buffers(pa.int32(), len(maps) + 1, [None, _ends(maps)])
    keys = _texts([key.encode() for each in maps for key in each])
    values = _texts([value.encode() for each in maps for value in each.values()])
    return pa.MapArray.from_arrays(ends, keys, values).take(found.indices)


def _texts(encoded: Sequence[bytes]) -> pa.Array:
    buffers = [None, _ends(encoded), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def _ends(parts: Sequence[Sized]) -> pa.Buffer:
    """Return the start of each part in the concatenation of all, and the end of the last one."""
    return pa.py_buffer(array("i", accumulate(map(len, parts), initial=0)))
