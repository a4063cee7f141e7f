"""Many drafts at once, as the columns that their frame will hold."""

from collections.abc import Sequence
from typing import Any, overload

import pyarrow as pa

from strandline.log.draft import Draft, EventBody
from strandline.log.protocol import Value
from strandline.values import Event

_US = pa.timestamp("us", "UTC")
_EVENTS = {Event}


class EventColumns(Sequence[Draft]):
    """The drafts of events with keys of their own, made without a look at each."""

    def __init__(self, columns: Sequence[Sequence[Any]], count: int, arrays: "list[pa.Array]"):
        self._columns = columns
        self._count = count
        #: Key, kind, payload, headers and time.
        self.arrays = arrays

    @classmethod
    def of(cls, values: Sequence[Value], bytes_max: int) -> "EventColumns | None":
        """Return the drafts of `values`; None if each has to be looked at.

        That is where some may be no events, or larger than `bytes_max`.
        """
        if set(map(type, values)) != _EVENTS:
            return None
        kinds, payloads, keys, headers, times = Event.columns(values)  # type: ignore[arg-type]
        columns = keys, kinds, payloads, headers, times
        made = cls(columns, len(values), event_arrays(columns))
        return made if made.size_bytes <= bytes_max else None

    @property
    def size_bytes(self) -> int:
        """How large the records count together."""
        return sum(_content_bytes(each) for each in self.arrays[:-1])

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Draft: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Draft]: ...
    def __getitem__(self, index: int | slice) -> Draft | Sequence[Draft]:
        if isinstance(index, int):
            return self._draft(index)
        wanted = range(self._count)[index]
        if len(wanted) == self._count:
            return self
        return [self._draft(each) for each in wanted]

    def _draft(self, index: int) -> Draft:
        key, kind, payload, headers, occurred_at_us = (each[index] for each in self._columns)
        texts = (kind.encode(), payload, headers, b"" if key is None else key.encode())
        body = EventBody(kind, payload, headers, occurred_at_us)
        return Draft(key, body, sum(map(len, texts)))


def size_of(drafts: Sequence[Draft]) -> int:
    """Return how large the records count together."""
    if isinstance(drafts, EventColumns):
        return drafts.size_bytes
    return sum(draft[2] for draft in drafts)


def event_arrays(columns: Sequence[Sequence[Any]]) -> "list[pa.Array]":
    """Return keys, kinds, payloads, headers and times as the columns of a frame."""
    keys, kinds, payloads, headers, times = columns
    return [
        pa.array(keys, pa.string()),
        pa.array(kinds, pa.string()),
        _json_array(payloads),
        _json_array(headers),
        pa.array(times, _US),
    ]


def _json_array(values: Sequence[bytes]) -> pa.Array:
    # As strings, Arrow would check each anew whether it is UTF-8.
    made = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(made), made.buffers(), made.null_count)


def _content_bytes(column: pa.Array) -> int:
    ends = memoryview(column.buffers()[1]).cast("i")
    return ends[len(column)]
