"""Many drafts at once, as the columns of the frame that will hold them."""

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from operator import itemgetter, sub
from typing import TYPE_CHECKING, Any, cast, overload

import pyarrow as pa

from strandline._core import IS_COMPILED
from strandline.log.draft import Draft
from strandline.log.event_rows import EventRows
from strandline.log.history import EventBody
from strandline.log.results import Value
from strandline.values import Event, Partition
from strandline.values.arguments import INT64_MAX

if TYPE_CHECKING or IS_COMPILED:
    from strandline._core.core import route, sizes_of
    from strandline._core.core import size_of as size_of_events
else:
    route = size_of_events = sizes_of = None

_US = pa.timestamp("us", "UTC")
_EVENTS = {Event}
# Calling a named tuple's class is slow.
_new_draft: Any = partial(tuple.__new__, Draft)
_new_body: Any = partial(tuple.__new__, EventBody)

#: Frames with at least this many records hold columns.
COLUMNS_MIN = 64


class EventColumns(Sequence[Draft]):
    """The drafts of events with different keys, made without examining each event."""

    def __init__(
        self,
        columns: "Sequence[Sequence[Any]] | EventRows",
        count: int,
        arrays: "list[pa.Array]",
        message: "pa.Buffer | None" = None,
    ) -> None:
        self._columns = columns
        self._count = count
        #: Key, kind, payload, headers and time.
        self.arrays = arrays
        #: The arrays as an Arrow message, if they came as one.
        self.message = message

    @classmethod
    def of(cls, values: Sequence[Value], bytes_max: int) -> "EventColumns | None":
        """Return the drafts of `values`; None if each has to be examined.

        That is if some may not be events, or may be larger than `bytes_max`.
        """
        if isinstance(values, EventRows):
            made = cls(values, len(values), values.arrays, values.message)
            return made if made.size_bytes <= bytes_max else None
        if set(map(type, values)) != _EVENTS:
            return None
        kinds, payloads, keys, headers, times = Event.columns(values)  # type: ignore[arg-type]
        columns = keys, kinds, payloads, headers, times
        made = cls(columns, len(values), event_arrays(columns))
        return made if made.size_bytes <= bytes_max or max(made._sizes) <= bytes_max else None

    @property
    def size_bytes(self) -> int:
        """The total size of the records, as counted against limits."""
        return sum(_ends(each)[-1] for each in self.arrays[:-1])

    @property
    def keys(self) -> Sequence[str | None]:
        """The key of each."""
        keys: Sequence[str | None] = self._python_columns[0]
        return keys

    def chosen(self, indices: Sequence[int]) -> Sequence[Draft]:
        """Return the drafts at these indices (two or more), in a form that a frame takes."""
        pick = itemgetter(*indices)
        columns = [pick(column) for column in self._python_columns]
        if len(indices) >= COLUMNS_MIN:
            taken = pa.array(indices, pa.int64())
            return EventColumns(columns, len(indices), [each.take(taken) for each in self.arrays])
        return list(_drafts(columns, pick(self._sizes)))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Draft]:
        return _drafts(self._python_columns, self._sizes)

    @property
    def _python_columns(self) -> Sequence[Sequence[Any]]:
        return self._columns.columns if isinstance(self._columns, EventRows) else self._columns

    @cached_property
    def _sizes(self) -> list[int]:
        columns = [_ends(each).tolist() for each in self.arrays[:-1]]
        ends = list(map(sum, zip(*columns, strict=True)))
        return list(map(sub, ends[1:], ends))

    @overload
    def __getitem__(self, index: int) -> Draft: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Draft]: ...
    def __getitem__(self, index: int | slice) -> Draft | Sequence[Draft]:
        if isinstance(index, int):
            key, *body = (column[index] for column in self._python_columns)
            drafted: Draft = _new_draft((key, _new_body(body), self._sizes[index]))
            return drafted
        if _is_whole(index, self._count):
            return self
        columns = [column[index] for column in self._python_columns]
        return list(_drafts(columns, self._sizes[index]))


def _drafts(columns: Sequence[Sequence[Any]], sizes: Sequence[int]) -> Iterator[Draft]:
    keys, kinds, payloads, headers, times = columns
    bodies = map(_new_body, zip(kinds, payloads, headers, times, strict=True))
    return map(_new_draft, zip(keys, bodies, sizes, strict=True))


class EventDrafts(Sequence[Draft]):
    """The drafts of events with different keys, built only when a store needs them."""

    def __init__(self, events: list[Any], sizes: list[int] | None = None) -> None:
        #: The events; not to be changed.
        self.events = events
        self._sizes = sizes
        #: The events of each partition, by the identity of the list of their indices.
        self._routed: dict[int, tuple[Sequence[int], list[Any]]] = {}

    @property
    def sizes(self) -> list[int]:
        """The size of each, as counted against limits."""
        if self._sizes is None:
            self._sizes = cast("list[int]", sizes_of(self.events, INT64_MAX))
        return self._sizes

    @cached_property
    def _made(self) -> list[Draft]:
        kinds, payloads, keys, headers, times = Event.columns(self.events)
        return list(_drafts((keys, kinds, payloads, headers, times), self.sizes))

    @property
    def keys(self) -> Sequence[str | None]:
        """The key of each."""
        return [event.key for event in self.events]

    def route(self, partitions: int, bytes_max: int) -> dict[Partition, list[int]] | None:
        """Return the indices of what goes to each partition; None unless all have keys."""
        routed: Any = route(self.events, partitions, bytes_max)
        if routed is NotImplemented:
            return None
        self._routed = {id(part[0]): part for part in routed.values()}
        return {number: indices for number, (indices, _) in routed.items()}

    def chosen(self, indices: Sequence[int]) -> "EventDrafts":
        """Return the drafts at these indices."""
        if (routed := self._routed.get(id(indices))) is not None:
            return EventDrafts(routed[1])
        return EventDrafts([*map(self.events.__getitem__, indices)])

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Draft]:
        return iter(self._made)

    @overload
    def __getitem__(self, index: int) -> Draft: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Draft]: ...
    def __getitem__(self, index: int | slice) -> Draft | Sequence[Draft]:
        if isinstance(index, int):
            return self._made[index]
        return self if _is_whole(index, len(self.events)) else EventDrafts(self.events[index])


def size_of(drafts: Sequence[Draft]) -> int:
    """Return the total size of the records, as counted against limits."""
    if isinstance(drafts, EventColumns):
        return drafts.size_bytes
    if isinstance(drafts, EventDrafts):
        return size_of_events(drafts.events)
    return sum([draft[2] for draft in drafts])


def event_columns(drafts: Sequence[Draft]) -> tuple[Sequence[Any], ...] | None:
    """Return keys, kinds, payloads, headers, times and sizes; None for values other than events."""
    if isinstance(drafts, EventDrafts):
        kinds, payloads, keys, headers, times = Event.columns(drafts.events)
        return keys, kinds, payloads, headers, times, drafts.sizes
    keys, bodies, sizes = zip(*drafts, strict=True)
    return (keys, *zip(*bodies, strict=True), sizes) if isinstance(bodies[0], EventBody) else None


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
    # As strings, Arrow would validate the UTF-8 of each value again.
    made = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(made), made.buffers(), made.null_count)


def _is_whole(part: slice, count: int) -> bool:
    return range(count)[part] == range(count)


def _ends(column: pa.Array) -> memoryview:
    return memoryview(column.buffers()[1]).cast("i")[: len(column) + 1]
