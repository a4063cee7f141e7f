"""Events given as Arrow columns, for logs that store columns."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib import import_module
from operator import is_
from typing import TYPE_CHECKING, Any, Final, overload

from strandline.values import Event
from strandline.values.prompt import prompt_text

if TYPE_CHECKING:
    import pyarrow as pa


class EventRows(Sequence[Event]):
    """Values for `append_many`: like a list of events, but an Event is built only when used.

    Given as key, kind, payload, headers and time, in the types of `read_batches`. The
    producer of the columns has checked the JSON: a log does not check it again.

    `message` is an Arrow message of these columns, which a frame stores unchanged. Its producer
    has checked all values in the same way, and guarantees that they have not changed since.
    """

    def __init__(self, arrays: "Sequence[pa.Array]", *, message: "pa.Buffer | None" = None) -> None:
        for each in arrays:
            each.validate(full=message is None)
        #: The columns in the form that a frame holds, without rows before their first.
        self.arrays: Final = [_whole(each) for each in arrays]
        is_whole = all(map(is_, self.arrays, arrays))
        #: All columns as one message in the form that a frame holds, or None.
        self.message: Final = message if is_whole else None
        if message is None:
            for kind in self.arrays[1].unique().to_pylist():
                Event.load(kind, b"null", None, b"{}", None)

    def __repr__(self) -> str:
        return prompt_text("EventRows", rows=len(self.arrays[0]))

    @cached_property
    def columns(self) -> "tuple[list[Any], ...]":
        """Keys, kinds, payloads, headers and times as Python values."""
        keys, kinds, payloads, headers, times = self.arrays
        return (
            keys.to_pylist(),
            kinds.to_pylist(),
            payloads.cast("binary").to_pylist(),
            headers.cast("binary").to_pylist(),
            times.cast("int64").to_pylist(),
        )

    @cached_property
    def _events(self) -> list[Event]:
        keys, kinds, payloads, headers, times = self.columns
        return Event.load_many(kinds, payloads, keys, headers, times)

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | Sequence[Event]:
        return self._events[index]


def _whole(column: "pa.Array") -> "pa.Array":
    """Return the column without the rest of an array that it is a slice of."""
    # Imported late: many logs never use an array.
    arrow = import_module("pyarrow")
    offsets = column.buffers()[1]
    is_text = arrow.types.is_string(column.type)
    if column.offset == 0 and not (is_text and offsets and offsets[:4].to_pybytes() != bytes(4)):
        return column
    return column.take(arrow.arange(0, len(column)))
