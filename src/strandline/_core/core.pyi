"""The interface of the C files. `NotImplemented` means: left to Python, and nothing was done."""

from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Generator, Iterable, Iterator
from types import NotImplementedType
from typing import Any, Self, TypeVar, final

from strandline.values.record import Record as Record

_Memory = TypeVar("_Memory")

INTERFACE: int
"""The version of the interface between Python and the core."""

def bind(**functions: Callable[..., Any]) -> None:
    """Set the functions that do what the core leaves to Python: those of `values/event.py`.

    Called before any other.
    """

def columns_learn(
    head: bytes, body_length_at: int, rows_at: int, buffers_at: int, nodes_at: int, /
) -> None:
    """Set how an Arrow message of the five columns of events begins, and the positions of its
    numbers; ValueError if these are not in order."""

def encode_columns(events: list[Any], /) -> bytes | NotImplementedType:
    """Return the body of a frame of columns; NotImplemented if not all are events."""

def size_of(values: Any, /) -> int:
    """Return the size of an event, or of all events of a list."""

def copies_of(events: list[Any], /) -> list[Any]:
    """Return copies of events, which share no mutable value with them."""

def records_of(
    topic: str,
    partition: int,
    offset: int,
    timestamp_us: int,
    tenant: str | None,
    events: list[Any],
    /,
) -> list[Record]:
    """Return records of copies of these events, the first with this offset."""

def sizes_of(events: list[Any], bytes_max: int, /) -> list[int] | NotImplementedType:
    """Return the size of each event; NotImplemented for one above `bytes_max`, or no event."""

def record_rows(
    values: Any,
    tenant: str | None,
    topic_id: bytes,
    partition: int,
    place: int,
    offset: int,
    now_us: int,
    /,
) -> list[tuple[Any, ...]] | NotImplementedType:
    """Return the rows of a list in a database, the first at `place` with `offset`.

    NotImplemented unless each is an event, or the draft of one.
    """

def record_row(
    event: Any, topic_id: bytes, partition: int, place: int, offset: int, now_us: int, /
) -> tuple[Any, ...]:
    """Return the row of an event without a tenant, and without a field for it."""

def route(
    events: list[Any], partitions: int, bytes_max: int, /
) -> dict[int, tuple[list[int], list[Any]]] | NotImplementedType:
    """Return the partitions of events by key, in the order of their first event.

    The values are the indices of a partition's events, and the events. NotImplemented if the
    list is empty, or has an event without a key, one above `bytes_max`, or no event.
    """

def start_writeback(fd: int, start: int, length: int, /) -> None:
    """Make the system begin to write a part of a file to disk, before a later sync.

    A thread of the core does it. Only a hint; does nothing if the system has no such call. Errors
    are raised by the sync.
    """

def is_signed(sign: bytes, /) -> bool:
    """Whether a file was not replaced, and still has these 16 bytes at a position.

    `sign` is the descriptor, device, inode and position (8 bytes each), the 16 bytes, and the path
    with a zero at its end. False also if the file cannot be read.
    """

def running_loop() -> AbstractEventLoop | None:
    """Return the running loop that this thread registered last; None once it has ended.

    None as well in the child of a fork, and once another thread has registered its loop.
    """

def know_running_loop(loop: AbstractEventLoop, /) -> None:
    """Register the loop that asyncio runs in this thread, in place of any other."""

def text_numbers(offsets: Any, first: int, count: int, content: Any, /) -> bytes:
    """Return a hash of 8 bytes for each text, for the fingerprint of the Spark sink.

    Text n lies in `content` between the offsets n and n + 1, of eight bytes each, counted from
    `first`; ValueError if it does not. 0 for a text of more than 1,024 bytes.
    """

def are_json(offsets: Any, first: int, count: int, content: Any, /) -> bool:
    """Return whether each of such texts is certainly JSON that may be a payload.

    The texts must be UTF-8. False also if only Python can decide.
    """

def are_texts(offsets: Any, width: int, first: int, count: int, content: Any, /) -> bool:
    """Return whether such texts, with offsets of 4 or 8 bytes, are UTF-8 and in order."""

def header_columns(
    offsets: Any, first: int, count: int, content: Any, /
) -> tuple[bytes, bytes, bytes, bytes, bytes] | NotImplementedType:
    """Return the headers of events, given as such texts, as the parts of an Arrow map.

    The parts are the offsets of the maps; the offsets and the text of the names; the offsets and
    the text of the values. NotImplemented if only Python can decode one.
    """

def crc32c(seed: int, data: bytes, /) -> int:
    """Return the CRC-32C of `data`, continued from that of the bytes before."""

def encode(value: object, /) -> bytes | NotImplementedType:
    """Return the JSON of a value: the bytes of `encode_exact`, or NotImplemented."""

def decode(json: bytes, /) -> Any:
    """Return the value that msgspec decodes; NotImplemented if Python has to decode it."""

def answer_of_append(
    level: str, partition: int, offset: int, timestamp_us: int, count: int, /
) -> bytes:
    """Return the answer to an append of new records over HTTP, as `_answer` in server does."""

def split_request(whole: bytes, /) -> tuple[bytes, bytes] | None:
    """Return the head of a request without the digits of its length, and its body.

    None unless it is one complete request of HTTP/1.1, and its last Content-Length is the length
    of the body.
    """

def events_of_json(json: bytes, count_max: int, /) -> Any:
    """Return a list of the events of a text: one, or an array of at most `count_max`.

    The events equal those that Python creates; NotImplemented if it has to decode the text.
    """

@final
class Event:
    """See strandline.Event. Keeps the stored row, and decodes a part when it is accessed."""

    def __new__(cls, kind: str, payload: object = None, **rest: Any) -> Event: ...
    @classmethod
    def load(cls, *parts: Any) -> Event: ...
    @classmethod
    def load_many(cls, *columns: Iterable[Any]) -> list[Event]: ...
    @staticmethod
    def columns(events: Iterable[Event], /) -> tuple[list[Any], ...]: ...
    def parts(self) -> tuple[str, bytes, str | None, bytes, int | None]: ...
    def stored_row(self) -> bytes:
        """Return the event as it is stored in a frame of rows."""

@final
class Reader(Iterator[Record]):
    """Yields the records of [base, stop) in one segment, from verified frames.

    The first frame begins at `position` with offset `base`. Ends at `stop`, at the first
    frame that begins at or behind `pause`, and before any that Python has to read. Then
    `position` and `base` are those of the next frame. An OSError ends it as well, and so does
    a record that is larger than what is left of `bytes_left`, unless it `is_first`.

    Keeps a reference to `file`, so that `fd` stays open. Reads with `io.pread` unless `io` is None.
    ValueError if two threads call it at once.
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
        bytes_left: int,
        is_first: bool,
        /,
    ) -> Reader: ...
    def __next__(self) -> Record: ...
    def columns(
        self, wanted: int, rows_max: int, bytes_max: int, allocate: Callable[[int], _Memory], /
    ) -> list[tuple[_Memory | None, _Memory] | tuple[_Memory | None, _Memory, _Memory]]:
        """Return the wanted columns of the next frames, joined, as buffers of Arrow.

        Bits of `wanted`, and the order: key, kind, payload, headers, occurred_at, and the time
        of append. A column is `(validity, values)`, a text `(validity, offsets, content)`;
        validity is None where nothing is missing. Ends with the frame that has the row
        `rows_max` or the byte `bytes_max`, or as iterating does; the last frame may go beyond
        `stop`. The rows are those from `base` before the call to `base` after it. `allocate`
        returns memory of a size that can be written to.
        """

    @property
    def position(self) -> int: ...
    @property
    def base(self) -> int: ...
    @property
    def bytes_left(self) -> int: ...
    @property
    def is_full(self) -> bool:
        """Whether a record was larger than `bytes_left`."""

    @property
    def error(self) -> OSError | None:
        """The error that ended it, or None."""

@final
class TailWatch:
    """Where threads of this process wait until the tail of one partition changes. Thread-safe."""

    def __new__(cls) -> Self: ...
    def aim(
        self, file: object, fd: int, path: str, device: int, inode: int, seed: int, raw: bytes, /
    ) -> int:
        """Watch the tail file that `file` keeps open, whose content was `raw`; return the number
        of the aim. 0 if there are no notices, or Python has to handle a change first.

        Waits for an earlier aim return NotImplemented.
        """

    def begin_loop(self) -> tuple[int, int, int] | None:
        """Register an event loop that waits; return its number, and two descriptors that are
        readable when it has to call `look_on_loop`. None if too many loops wait, or there are
        no notices."""

    def look_on_loop(self, loop: int, /) -> tuple[bool, bool]:
        """Read the tail; return whether the loop has to call `look_again_on_loop` 200 µs later,
        and whether anything has changed since any thread has last read it."""

    def look_again_on_loop(self, loop: int, /) -> tuple[bool, bool]:
        """Do the same, unless a later notice has postponed it: then return (True, False)."""

    def end_loop(self, loop: int, /) -> None:
        """Unregister the loop, and close its own descriptor."""

@final
class Follower:
    """Waits for events at the end of a partition, and reads them. For one thread at a time.

    `aim` is what `TailWatch.aim` returned, `reader` at the partition's end.
    """

    def __new__(cls, watch: TailWatch, aim: int, reader: Reader, /) -> Self: ...
    @property
    def watch(self) -> TailWatch: ...
    def wait(self, start: int, records_max: int, timeout_s: float, /) -> Any:
        """Return the events from `start` on, a list, as soon as there are any.

        None when the time is up or `wake` was called. NotImplemented, with nothing done, if it is
        not at `start`, if there are more than `records_max`, or if anything else than events was
        written. The interpreter's lock is released while it waits.
        """

    def wake(self) -> None:
        """End the present wait, or the next one if there is none. From any thread."""

@final
class Lane:
    """Appends plain events to one partition, as long as it has the partition's head.

    `arm` hands the head over, `disarm` and `settle` take it back; the caller of these holds
    the partition's mutex. `append` and `append_many` return an offset, a timestamp and (),
    as a Placement has them, or NotImplemented. If they raise, `is_broken` is whether the files
    may hold a part of the frame.

    With an `io` or a `clock` that is not None, every call is made through these, in the
    order in which Python makes them; the caller then holds the mutex for an append, too.
    Without these, and if it `may_map`, the tail is mapped as shared memory if possible; then the
    lock of a shared partition is kept from one append to the next, until another process requests
    it, or until `disarm` or `close` (design 0121).
    Without an `io`, it writes zeros behind the end as ReservedSpace does, `ahead_bytes` at most.
    """

    def __new__(
        cls,
        io: object,
        clock: object,
        fenced: Callable[[], Exception],
        close_lock: Callable[[], None],
        segment_bytes: int,
        ahead_bytes: int,
        is_exclusive: bool,
        may_map: bool,
        /,
    ) -> Lane: ...
    def arm(
        self,
        files: object,
        segment_fd: int,
        tail_fd: int,
        lock_fd: int,
        holder_fd: int,
        lock_path: str,
        lock_device: int,
        lock_inode: int,
        frame_seed: int,
        tail_seed: int,
        next_offset: int,
        position: int,
        last_us: int,
        size_bytes: int,
        crc: int,
        durable: int,
        reserved: int,
        check_at: float,
        end: bytes,
        durable_slot: bytes,
        /,
    ) -> bool:
        """Take the head, and append from now on; False if that is impossible.

        Keeps a reference to `files`, so that the descriptors stay open. If it is exclusive, it
        checks from `check_at` on, every 10 ms, that the lock is still its own; with an `io` or
        a `clock`, Python does.
        """

    def disarm(self) -> tuple[int, int, int, int, int, int, int, bytes, bytes, bool] | None:
        """Stop appending, and return the head; None if Python has it.

        Next offset, position, last timestamp, size, checksum, durable mark, reserved
        space, the first two slots of the tail, and whether other processes have written
        meanwhile. Returns the same until `settle` is called: an interrupt loses nothing.
        """

    def settle(self) -> None:
        """Confirm that Python has the head."""

    def announce_to(self, watch: TailWatch, /) -> None:
        """Notify the waiters of this watch of the new end after each append."""

    def hold(self) -> None:
        """Append nothing until the next `arm`, because writes are queued in Python."""

    def close(self) -> None:
        """Stop appending for good."""

    def append(self, event: Any, bytes_max: int, /) -> Any: ...
    def append_many(self, events: list[Any], bytes_max: int, /) -> Any: ...
    def last_frame(self) -> tuple[int, int, int, int, bytes] | None:
        """Return the last frame if it is small: position, offsets [base, stop), checksum, bytes."""

    @property
    def is_armed(self) -> bool: ...
    @property
    def is_mapped(self) -> bool:
        """Whether the tail is mapped as shared memory."""

    @property
    def is_leased(self) -> bool:
        """Whether it keeps the lock of a shared partition until the next append."""

    @property
    def is_broken(self) -> bool: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def appends(self) -> int:
        """How many appends it has made, each of one or several events."""

@final
class GroupCommit:
    """Rounds of syncing one partition; implements `strandline.writes.rounds.Rounds`.

    `busy` is the object itself. Threads in `wait` lead a round or block until one has ended,
    without the interpreter's lock, and check for signals at least every 50 ms.
    """

    def __new__(cls) -> GroupCommit: ...
    def follow(self, mark: object, report: Callable[[int], None], /) -> None:
        """After rounds in `wait`, set `mark.value` to the last durable epoch, and call `report`
        with the durable mark."""

    def arm(
        self,
        files: object,
        io: object,
        segment_fd: int,
        tail_fd: int,
        tail_path: str,
        tail_device: int,
        tail_inode: int,
        tail_seed: int,
        same: bytes,
        durable: int,
        /,
    ) -> None:
        """Sync these files from now on, by system calls or, if it is not None, by `io`.

        Keeps a reference to `files`, so that the descriptors stay open. `same` are the 28 bytes of
        the tail's end that do not change while only frames are written, from its magic to its
        segment; `durable` is the durable mark. The caller holds `busy`.
        """

    def disarm(self) -> None:
        """Stop syncing, and release the files. The caller holds `busy`."""

    def sync(self) -> int | None:
        """Make everything up to the end in the tail durable; return that end. None, possibly
        after a sync, if Python has to do it: the epoch or the segment has changed, or the tail
        file was replaced. The caller holds `busy`.

        OSError if a sync fails, or has failed before: `has_failed` is True from then on. Errors
        of `io` are raised.
        """

    @property
    def has_failed(self) -> bool: ...
    @property
    def begun(self) -> int: ...
    @property
    def ended(self) -> int: ...
    @property
    def waiting(self) -> int:
        """How many threads are in `wait`."""

    @property
    def sync_s(self) -> float: ...
    @property
    def busy(self) -> Self: ...
    def acquire(self, blocking: bool = True, timeout: float = -1, /) -> bool: ...
    def release(self) -> None: ...
    def locked(self) -> bool: ...
    def begin(self) -> None: ...
    def end(self) -> None: ...
    def wait(self, turn: int, /) -> bool:
        """False also after a sync that failed, and with an `io`."""

    def close(self) -> None: ...
    def renew(self) -> None: ...

class ReceiptFields:
    """The fields of a receipt: see `strandline.log.receipts`. Immutable.

    If an Appender created it, its outcome is created on first access.
    """

    def __new__(
        cls,
        outcome: Any,
        partition: Any,
        level: Any,
        durability_max: Any,
        offered: Any,
        index: int = 0,
        /,
    ) -> Self: ...
    @property
    def _outcome(self) -> Any: ...
    @property
    def _is_reached(self) -> bool:
        """Whether an Appender created it, and it has reached the requested level."""

    def _placement(self) -> Any:
        """Return `_outcome.result()`."""

    def _next_round(self) -> Future[None] | None:
        """Return a future of the running loop that is done once the round that makes it durable
        has ended; None if no Appender created it, or durability was not requested."""

class AsyncReceiptFields:
    """What a receipt on an event loop is made of: see `strandline.log.async_receipts`.

    Awaited, it returns itself once it has reached the level that was requested. If an Appender
    made it, it waits for its round of syncing, where it needs one; after that, and otherwise, for
    what its `_await_open` returns.
    """

    def __new__(cls, made: Any, block: Any = None, /) -> Self: ...
    @property
    def _made(self) -> Any: ...
    @property
    def _block(self) -> Any: ...
    def __await__(self) -> Generator[Any, None, Any]: ...

@final
class Appender:
    """Appends events without terms, or lists of them, to one partition of a topic.

    Counts them. Appends nothing before `fresh_until` is set, nor from that time on, by `clock` or
    the system's monotonic clock. `seam` is None, or called in place of `lane.append`, and
    `seam_many` in place of `lane.append_many`.
    `ending.reason`, `written.value` and `listener.partitions` are read at each append;
    `announce` is called with the new end while there are such partitions.
    `failed` is called with an error and the appended value, and raises the caller's error.
    `receipts_of` is called with the receipt of the first event of a list, and their count.
    `make_outcome` is called with the last epoch written, the round of syncing to wait for,
    and the placement. `round_on_loop` returns a future of the running loop that is done once
    such a round has ended. `finish` is called with a receipt if Python has to make its append
    durable, and raises if that fails.
    """

    def __new__(
        cls,
        lane: Lane,
        seam: Callable[[Any, int], Any] | None,
        seam_many: Callable[[Any, int], Any] | None,
        ending: object,
        written: object,
        commit: GroupCommit,
        listener: object,
        announce: Callable[[int], None],
        failed: Callable[[BaseException, Any], Any],
        make_outcome: Callable[[int, int, Any], Any],
        round_on_loop: Callable[[int], Future[None]],
        finish: Callable[[Any], None],
        receipt: type[ReceiptFields],
        receipts_of: Callable[[Any, int], Any],
        clock: Any,
        partition: int,
        level: Any,
        durability_max: Any,
        bytes_max: int,
        /,
    ) -> Self: ...
    fresh_until: float
    def append(self, events: list[Any], /) -> Any:
        """Append a list of events, which the caller must not change later; return the receipt of
        the first. NotImplemented as `append_many_warm`."""

    def take_counts(self) -> tuple[int, int, int]:
        """Return how many appends, events and bytes there were since the last call."""

    @property
    def is_closed(self) -> bool:
        """Whether its lane is closed."""

def append_warm(
    appenders: dict[str, Any],
    topic: object,
    value: object,
    terms: Any,
    may_wait: bool,
    /,
) -> Any:
    """Append an event to the topic of this name, and return the receipt; NotImplemented if
    there is no appender for it, the value is no event, the terms are more than a durability
    that is one of the appender's levels, or Python has to append it.

    A topic of several partitions has a list of appenders, one for each. Then an event needs a key,
    and goes to the appender of the key's partition.

    Returns once it is durable, if that was requested and `may_wait`. An appender may also be a
    function of Python, called with the value, the terms and `may_wait`.
    """

def append_many_warm(
    appenders: dict[str, Any],
    topic: object,
    values: object,
    terms: Any,
    may_wait: bool,
    /,
) -> Any:
    """Append a list of events as one frame, and return what `receipts_of` makes of it.

    As `append_warm`; NotImplemented also if there are none, or several partitions.
    """

def append_on_loop(
    appenders: dict[str, Any],
    topic: object,
    value: object,
    terms: Any,
    around: tuple[
        dict[Any, Any],
        set[str],
        Callable[[str], None],
        Callable[[], Any],
        Callable[[], None],
        type[Any],
    ],
    /,
) -> Any:
    """Append an event as `append_warm` does, without a wait, and return what is to be awaited.

    Around it are: the queues of topics, of which the topic's has None as its `last` unless an
    append is queued; the topics whose use is noted, and what notes one; what returns None unless
    a transaction is open; what raises if no loop runs; and the type of what is returned.
    NotImplemented also if an append is queued or a transaction is open.
    """
