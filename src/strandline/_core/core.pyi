"""What the C files promise. `NotImplemented` stands for: not me, and nothing was done."""

from collections.abc import Callable, Iterable, Iterator
from types import NotImplementedType
from typing import Any, final

from strandline.values.record import Record as Record

INTERFACE: int
"""What Python and the core expect of each other; raised with each change."""

def bind(
    *,
    encode_payload: Callable[[Any], bytes],
    encode_headers: Callable[[Any], bytes],
    check_kind: Callable[[Any], str],
    check_key: Callable[[Any], str],
    us_from_datetime: Callable[[Any], int],
    datetime_from_us: Callable[[int], Any],
    decode_payload: Callable[[bytes], Any],
    decode_headers: Callable[[bytes], Any],
    events_equal: Callable[[Any, Any], bool],
    event_text: Callable[[Any], str],
    raise_too_large: Callable[[int], None],
    raise_no_event: Callable[[Any], None],
    record_text: Callable[[Any], str],
) -> None:
    """Set the functions that do what the core leaves to Python. Called before any other."""

def columns_learn(
    head: bytes, body_length_at: int, rows_at: int, buffers_at: int, nodes_at: int, /
) -> None:
    """Set how an Arrow message of the five columns of events begins, and where its numbers are.

    ValueError if the places do not follow each other.
    """

def encode_columns(events: list[Any], /) -> bytes | NotImplementedType:
    """Return the body of a frame of columns; NotImplemented if there are others than events."""

def crc32c(seed: int, data: bytes, /) -> int:
    """Return the CRC-32C of `data`, continued from that of what came before."""

def encode(value: object, /) -> bytes | NotImplementedType:
    """Return the JSON of a value: the bytes of `encode_exact`, or NotImplemented."""

def decode(json: bytes, /) -> Any:
    """Return what JSON says, as msgspec does; NotImplemented for whatever else."""

@final
class Event:
    """See strandline.Event. Holds itself as a row; decodes what is asked for."""

    def __new__(cls, kind: str, payload: object = None, **rest: Any) -> Event: ...
    @classmethod
    def load(cls, *parts: Any) -> Event: ...
    @classmethod
    def load_many(cls, *columns: Iterable[Any]) -> list[Event]: ...
    @staticmethod
    def columns(events: Iterable[Event], /) -> tuple[list[Any], ...]: ...
    def parts(self) -> tuple[str, bytes, str | None, bytes, int | None]: ...
    def stored_row(self) -> bytes:
        """Return the event as it stands in a frame of rows."""

@final
class Reader(Iterator[Record]):
    """Yields the records of [base, stop) in one segment, out of frames that verify.

    The first frame begins at `position` with offset `base`. Ends at `stop`, at the first
    frame that begins at or behind `pause`, and before any that Python has to read. Then
    `position` and `base` are those of the next frame. An OSError ends it as well.

    `file` is held, so that `fd` stays open. Reads with `io.pread` unless `io` is None.
    ValueError if two threads ask for a record at once.
    """

    def __new__(
        cls,
        file: object,
        io: object,
        fd: int,
        seed: int,
        position: int,
        base: int,
        end: int,
        stop: int,
        pause: int,
        topic: str,
        partition: int,
        /,
    ) -> Reader: ...
    def __next__(self) -> Record: ...
    @property
    def position(self) -> int: ...
    @property
    def base(self) -> int: ...
    @property
    def error(self) -> OSError | None:
        """What ended it."""
