"""What the C files promise. `NotImplemented` stands for: not me, and nothing was done."""

from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Iterable, Iterator
from types import NotImplementedType
from typing import Any, Self, TypeVar, final

from strandline.values.record import Record as Record

_Memory = TypeVar("_Memory")

INTERFACE: int
"""What Python and the core expect of each other; raised with each change."""

def bind(**functions: Callable[..., Any]) -> None:
    """Set the functions that do what the core leaves to Python: those of `values/event.py`.

    Called before any other.
    """

def columns_learn(
    head: bytes, body_length_at: int, rows_at: int, buffers_at: int, nodes_at: int, /
) -> None:
    """Set how an Arrow message of the five columns of events begins, and where its numbers are;
    ValueError if the places do not follow each other."""

def encode_columns(events: list[Any], /) -> bytes | NotImplementedType:
    """Return the body of a frame of columns; NotImplemented if there are others than events."""

def size_of(values: Any, /) -> int:
    """Return how large an event counts, or a list of events together."""

def copies_of(events: list[Any], /) -> list[Any]:
    """Return the same events, which share nothing that a caller can change."""

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
    """Return how large each event counts.

    NotImplemented if one counts more than `bytes_max`, or is something else.
    """

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

    With the indices of each partition's events, and these. NotImplemented if there is none,
    one without a key, one that counts more than `bytes_max`, or something else.
    """

def start_writeback(fd: int, start: int, length: int, /) -> None:
    """Have the system begin to store a part of a file, so that a later sync finds little left.

    Only a hint, and nothing where the system has no such call: the sync raises what has failed.
    """

def is_signed(sign: bytes, /) -> bool:
    """Whether a file is in its place, and has 16 bytes that it was signed with.

    The descriptor, device, inode and position (8 bytes each), the 16 bytes, and the path with a
    zero at its end. False as well where the file cannot be looked at.
    """

def running_loop() -> AbstractEventLoop | None:
    """Return the running loop that this thread registered last; None once it has ended.

    None as well in the child of a fork, and once another thread has registered its loop.
    """

def know_running_loop(loop: AbstractEventLoop, /) -> None:
    """Register the loop that asyncio runs in this thread; it replaces the one before."""

def text_numbers(offsets: Any, first: int, count: int, content: Any, /) -> bytes:
    """Return a word for each text, which the fingerprint of the Spark sink adds up.

    Text n lies in `content` between the offsets n and n + 1, of eight bytes each, counted from
    `first`; ValueError if it does not. 0 for a text of more than 1,024 bytes.
    """

def are_json(offsets: Any, first: int, count: int, content: Any, /) -> bool:
    """Return whether each of such texts is surely JSON that may be a payload.

    They are UTF-8, which is not checked. False also for what only Python decides.
    """

def are_texts(offsets: Any, width: int, first: int, count: int, content: Any, /) -> bool:
    """Return whether such texts, with offsets of 4 or 8 bytes, surely are UTF-8 and in order."""

def header_columns(
    offsets: Any, first: int, count: int, content: Any, /
) -> tuple[bytes, bytes, bytes, bytes, bytes] | NotImplementedType:
    """Return the headers of events, which such texts say, as the parts of an Arrow map.

    Where the names of each begin among all; then of all names where each begins, and their
    text; then the same of the values. NotImplemented for what only Python decides.
    """

def crc32c(seed: int, data: bytes, /) -> int:
    """Return the CRC-32C of `data`, continued from that of what came before."""

def encode(value: object, /) -> bytes | NotImplementedType:
    """Return the JSON of a value: the bytes of `encode_exact`, or NotImplemented."""

def decode(json: bytes, /) -> Any:
    """Return what JSON says, as msgspec does; NotImplemented for whatever else."""

def split_request(whole: bytes, /) -> tuple[bytes, bytes] | None:
    """Return the head of a request without the digits of its length, and its body.

    None unless it is one request of HTTP/1.1 as a whole, whose last length is that of its body.
    """

def events_of_json(json: bytes, count_max: int, /) -> Any:
    """Return a list of the events of a text: one, or an array of at most so many.

    As they are made of what msgspec decodes; NotImplemented for what needs a closer look.
    """

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
    `position` and `base` are those of the next frame. An OSError ends it as well, and so does
    a record that is larger than what is left of `bytes_left`, unless it `is_first`.

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
        """Whether a record was too large for what was left."""

    @property
    def error(self) -> OSError | None:
        """What ended it."""

@final
class TailWatch:
    """Where threads of this process wait until the tail of one partition changes. Thread-safe."""

    def __new__(cls) -> Self: ...
    def aim(
        self, file: object, fd: int, path: str, device: int, inode: int, seed: int, raw: bytes, /
    ) -> int:
        """Watch the tail file that `file` keeps open, of which `raw` was read; return the number
        of the aim. 0 if there are no notices to be had, or Python has to look at it first.

        Those who wait for an earlier aim get NotImplemented.
        """

    def begin_loop(self) -> tuple[int, int, int] | None:
        """Have an event loop wait as well; return its number, and two descriptors that are
        readable when it has to call `look_on_loop`. None if too many loops do, or there are
        no notices."""

    def look_on_loop(self, loop: int, /) -> tuple[bool, bool]:
        """Look at the tail; whether the loop has to call `look_again_on_loop` 200 µs later, and
        whether anything has changed since the last look of any thread."""

    def look_again_on_loop(self, loop: int, /) -> tuple[bool, bool]:
        """Do the same, or no more than say that it is due later, because of a later notice."""

    def end_loop(self, loop: int, /) -> None:
        """Close what `begin_loop` has opened."""

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
        not at `start`, if there are more than so many, and if anything else than events was
        written. The interpreter's lock is released while it waits.
        """

    def wake(self) -> None:
        """End the present wait, or the next one if there is none. From any thread."""

@final
class Lane:
    """Appends plain events to one partition, as long as it has the partition's head.

    `arm` hands the head over, `disarm` and `settle` take it back; the caller of these holds
    the partition's mutex. `append` and `append_many` return an offset, a timestamp and (),
    as a Placement has them, or NotImplemented. If they raise, `is_broken` says whether the
    files may hold a part of it.

    With an `io` or a `clock` that is not None, every call is made through these, in the
    order in which Python makes them; the caller then holds the mutex for an append, too.
    Without these, and if it `may_map`, the tail is shared memory wherever that can be had; then
    the lock of a shared partition is kept from one append to the next, until another process
    asks for it, or until `disarm` or `close` (design 0121).
    Without an `io`, it writes zeros behind the end as ReservedSpace does, `ahead_bytes` at most.
    """

    def __new__(
        cls,
        io: object,
        clock: object,
        fenced: Callable[[], Exception],
        let_lock_go: Callable[[], None],
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
        """Take the head, and append from now on; False if that cannot be.

        `files` are held, so that the descriptors stay open. Exclusive: from `check_at` on, it
        looks every 10 ms whether the lock is still its own; with an `io` or a `clock`, Python
        does.
        """

    def disarm(self) -> tuple[int, int, int, int, int, int, int, bytes, bytes, bool] | None:
        """Append no more, and return the head; None if Python has it.

        Next offset, position, last timestamp, size, checksum, durable mark, reserved
        space, the first two slots of the tail, and whether other processes have written
        meanwhile. Returns the same until `settle` is called: an interrupt loses nothing.
        """

    def settle(self) -> None:
        """Python has taken the head back."""

    def announce_to(self, watch: TailWatch, /) -> None:
        """Tell those who wait there where the partition ends, after each append."""

    def hold(self) -> None:
        """Append nothing until the next `arm`: writes are queued."""

    def close(self) -> None:
        """Append nothing any more."""

    def append(self, event: Any, bytes_max: int, /) -> Any: ...
    def append_many(self, events: list[Any], bytes_max: int, /) -> Any: ...
    def last_frame(self) -> tuple[int, int, int, int, bytes] | None:
        """Return the last frame if it is small: place, offsets [base, stop), checksum, bytes."""

    @property
    def is_armed(self) -> bool: ...
    @property
    def is_mapped(self) -> bool:
        """Whether it has the tail as shared memory."""

    @property
    def is_leased(self) -> bool:
        """Whether it keeps the lock of a shared partition until the next append."""

    @property
    def is_broken(self) -> bool: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def appends(self) -> int:
        """How many it has made, each of one event or of several."""

@final
class GroupCommit:
    """Rounds of syncing one partition; implements `strandline.writes.rounds.Rounds`.

    It is its own `busy`. Threads in `wait` lead a round or block until one has ended,
    without the interpreter's lock, and look for signals at least every 50 ms.
    """

    def __new__(cls) -> GroupCommit: ...
    def follow(self, mark: object, tell: Callable[[int], None], /) -> None:
        """Have `mark.value` raised to the last epoch that is durable, and `tell` called with
        the end of what is durable, after rounds in `wait`."""

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
        """Sync there from now on, by the system's calls or, if it is not None, by `io`.

        `files` are held, so that the descriptors stay open. `same` are the 28 bytes of the
        tail's end that stay as long as nothing but frames is written, from its magic to its
        segment; `durable` is the end of what is durable. The caller holds `busy`.
        """

    def disarm(self) -> None:
        """Sync nowhere, and hold no files. The caller holds `busy`."""

    def sync(self) -> int | None:
        """Make durable what the tail says is written; return the end of it. None, perhaps
        after a sync, if Python has to do it: the epoch or the segment is another one, or the
        tail was replaced. The caller holds `busy`.

        OSError if a sync fails, or one has failed before: `has_failed` is True from then on.
        Any error of `io`.
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
    """What a receipt is made of: see `strandline.log.receipts`. Immutable.

    Made by an Appender, it has its outcome made when that is first asked for.
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
        """Whether an Appender made it, and it has reached the level that was requested."""

    def _placement(self) -> Any:
        """Return `_outcome.result()`."""

    def _next_round(self) -> Future[None] | None:
        """Return what is done, on the running loop, once the round of syncing has ended that
        makes it durable; None if an Appender did not make it, or that was not requested."""

@final
class Appender:
    """Appends events without terms, or lists of them, to one partition of a topic.

    Counts them. Appends nothing before `fresh_until` is set, nor from then on, by `clock` or
    else the system's monotonic clock. `seam` is None, or called in place of `lane.append`, and
    `seam_many` in place of `lane.append_many`.
    `ending.reason`, `written.value` and `listener.partitions` are read at each append;
    `announce` is called with the new end while there are such partitions.
    `failed` is called with an error and what was appended, and raises what the caller gets.
    `receipts_of` is called with the receipt of the first event of a list, and their count.
    `make_outcome` is called with the last epoch written, the round of syncing to wait for,
    and the placement. `round_on_loop` returns what is done on the running loop once such a
    round has ended. `finish` is called with the receipt of an append that waits to be
    durable, where Python has to see to that, and raises if it will not be.
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
        """Append a list of events, which is the caller's to leave as it is; return the receipt
        of the first. NotImplemented as `append_many_warm`."""

    def take_counts(self) -> tuple[int, int, int]:
        """Return how many appends it has made, of how many events, and how large these count,
        since the last time."""

    @property
    def is_closed(self) -> bool:
        """Whether its lane is, for good."""

def append_warm(
    appenders: dict[str, Any],
    topic: object,
    value: object,
    terms: Any,
    may_wait: bool,
    /,
) -> Any:
    """Append an event to the topic of this name, and return the receipt; NotImplemented if
    there is no such appender, the value is no event, the terms are more than a durability
    that is one of the appender's levels, or it has to be done in Python.

    A topic of several partitions has a list of appenders, one for each: then an event has to
    have a key, and is appended by that of the key's partition.

    Returns once it is durable, if that was requested and it may wait. An appender that is no
    `Appender` is called with the value, the terms and `may_wait`, and does the same.
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
