"""What an append returns: places in the outcome of one or more requests."""

from asyncio import Future
from collections.abc import Callable, Generator, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import msgspec

from strandline._core import IS_COMPILED
from strandline.log.receipt_looks import (
    receipt_html,
    receipt_text,
    receipts_html,
    receipts_text,
)
from strandline.log.store import Outcome, Placement
from strandline.log.terms import check_level
from strandline.values import (
    ClosedError,
    Durability,
    DurabilityName,
    FailedError,
    Offset,
    Partition,
    UnavailableError,
    UnknownError,
)
from strandline.values.arguments import check_timeout

if TYPE_CHECKING or not IS_COMPILED:
    # A struct: one is made for each append, and msgspec makes structs in C.
    class ReceiptFields(msgspec.Struct, eq=False):
        """The fields of a receipt."""

        _outcome: Outcome
        _partition: Partition
        _level: Durability
        _durability_max: Durability
        _offered: object
        _index: int = 0
        #: Whether the level that the append requested is known to be reached.
        _is_reached = False

        def _next_round(self) -> "Future[None] | None":
            """Return a future for the core's next round of syncing; None without one."""
            return None

        def _placement(self) -> Placement:
            return self._outcome.result()
else:
    from strandline._core.core import ReceiptFields


class Receipt(ReceiptFields):
    """The outcome of one append.

    `append` returns when the outcome is known. Waits may be repeated and shared by threads
    and loops; a wait that times out, or an await that is cancelled, changes nothing.
    """

    if IS_COMPILED:
        # The core's struct defines its own slots.
        __slots__ = ()

    @property
    def is_settled(self) -> bool:
        """Whether the outcome is known: a place in the log, or an error."""
        return self._outcome.is_settled

    @property
    def partition(self) -> Partition:
        """The record's partition. UnavailableError while the outcome is open."""
        self._placement()
        return self._partition

    @property
    def offset(self) -> Offset:
        """The record's offset. UnavailableError while the outcome is open."""
        offset, _, originals = self._placement()
        repeats = len(originals)
        if self._index < repeats:
            return originals[self._index].offset
        return Offset(offset + self._index - repeats)

    @property
    def timestamp_us(self) -> int:
        """The record's append time. UnavailableError while the outcome is open."""
        _, timestamp_us, originals = self._placement()
        if self._index < len(originals):
            return originals[self._index].timestamp_us
        return timestamp_us

    @property
    def is_repeat(self) -> bool:
        """Whether the record had been appended before, and this call stored nothing.

        UnavailableError while the outcome is open.
        """
        _, _, originals = self._placement()
        return self._index < len(originals)

    @property
    def level(self) -> Durability | None:
        """The highest level reached so far; None while the outcome is open."""
        return self._outcome.level

    def wait(
        self, level: Durability | DurabilityName | None = None, timeout_s: float | None = None
    ) -> "Receipt":
        """Return this receipt once the record has reached `level`.

        None stands for the durability that the append requested. If no other thread is
        syncing, the waiting thread does it. Raises the error of the append;
        UnavailableError when the time is up; FailedError, UnknownError or ClosedError
        when the level can no longer be reached; InvalidError for a level above the
        log's `durability_max`.
        """
        least = _wanted(self._level, level, self._durability_max, timeout_s)
        _settle(self._outcome, least, check_timeout(timeout_s), self._offered)
        return self

    async def _wait_on_loop(
        self, level: Durability | DurabilityName | None = None, timeout_s: float | None = None
    ) -> "Receipt":
        least = _wanted(self._level, level, self._durability_max, timeout_s)
        await _settle_on_loop(self._outcome, least, timeout_s, self._offered)
        return self

    def __await__(self) -> "Generator[Any, None, Receipt]":
        """Do what `wait()` does on the running event loop."""
        return self._wait_on_loop().__await__()

    def __repr__(self) -> str:
        return receipt_text(self)

    def _repr_html_(self) -> str:
        return receipt_html(self)


class Part(NamedTuple):
    """The part of an append that went to one partition."""

    partition: Partition
    indices: Sequence[int]
    outcome: Outcome


class Receipts(Sequence[Receipt]):
    """The outcome of one `append_many`: a receipt for each value, in the same order."""

    #: The first value's receipt if all were written as one request, until `_parts` needs it.
    _first: Receipt | None = None

    def __init__(
        self,
        count: int,
        parts: Sequence[Part],
        level: Durability,
        durability_max: Durability,
        offered: object,
    ) -> None:
        self._count = count
        self._made: Sequence[Part] = parts
        self._level = level
        self._durability_max = durability_max
        self._offered = offered
        #: By index: which of the parts it is in, and at which place. Two lists of numbers, since
        #: the collector would go through as many tuples again and again.
        self._places: tuple[list[int], list[int]] | None = None

    def _make_part(self) -> None:
        first = self._first
        if first is not None:
            self._made = (Part(first.partition, range(self._count), outcome_of(first)),)
            self._first = None

    @property
    def _parts(self) -> Sequence[Part]:
        self._make_part()
        return self._made

    @property
    def is_settled(self) -> bool:
        """Whether every outcome is known."""
        return all(part.outcome.is_settled for part in self._parts)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Receipt]:
        self._make_part()
        common = self._level, self._durability_max, self._offered
        if len(self._made) == 1:
            (part,) = self._made
            for place in range(self._count):
                yield Receipt(part.outcome, part.partition, *common, place)
            return
        for number, place in zip(*self._found_places(), strict=True):
            part = self._made[number]
            yield Receipt(part.outcome, part.partition, *common, place)

    @overload
    def __getitem__(self, index: int) -> Receipt: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Receipt]: ...
    def __getitem__(self, index: int | slice) -> Receipt | Sequence[Receipt]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        part, place = self._place(index % self._count)
        return Receipt(
            part.outcome, part.partition, self._level, self._durability_max, self._offered, place
        )

    def wait(
        self, level: Durability | DurabilityName | None = None, timeout_s: float | None = None
    ) -> "Receipts":
        """Return once every record has reached `level`. See Receipt.wait."""
        least = _wanted(self._level, level, self._durability_max, timeout_s)
        for part in self._parts:
            _settle(part.outcome, least, check_timeout(timeout_s), self._offered)
        return self

    async def _wait_on_loop(
        self, level: Durability | DurabilityName | None = None, timeout_s: float | None = None
    ) -> "Receipts":
        least = _wanted(self._level, level, self._durability_max, timeout_s)
        for part in self._parts:
            await _settle_on_loop(part.outcome, least, timeout_s, self._offered)
        return self

    def __await__(self) -> "Generator[Any, None, Receipts]":
        """Do what `wait()` does on the running event loop."""
        return self._wait_on_loop().__await__()

    def __repr__(self) -> str:
        return receipts_text(self)

    def _repr_html_(self) -> str:
        return receipts_html(self)

    def _place(self, index: int) -> tuple[Part, int]:
        self._make_part()
        if len(self._made) == 1:
            return self._made[0], index
        numbers, places = self._found_places()
        return self._made[numbers[index]], places[index]

    def _found_places(self) -> tuple[list[int], list[int]]:
        if self._places is None:
            numbers, places = [0] * self._count, [0] * self._count
            for number, part in enumerate(self._made):
                for place, index in enumerate(part.indices):
                    numbers[index], places[index] = number, place
            self._places = numbers, places
        return self._places


def receipts_of(first: Receipt, count: int) -> Receipts:
    """Return the receipts of `count` values written as one request, given the first one."""
    receipts = Receipts(count, (), first._level, first._durability_max, first._offered)  # noqa: SLF001 - Of one request.
    receipts._first = first  # noqa: SLF001 - Of one request.
    return receipts


def first_of(receipts: Receipts) -> Receipt:
    """Return the receipt of the first value."""
    return receipts._first or receipts[0]  # noqa: SLF001 - Of one request.


def place_of(receipt: Receipt) -> tuple[Partition, int, int]:
    """Return where a new record is, and its append time; raises as `Receipt.offset`."""
    offset, timestamp_us, _ = receipt._placement()  # noqa: SLF001 - Of one request.
    return receipt._partition, offset, timestamp_us  # noqa: SLF001 - Of one request.


def outcome_of(receipt: Receipt) -> Outcome:
    """Return the outcome of the request that a receipt belongs to."""
    return receipt._outcome  # noqa: SLF001 - For what puts receipts together.


def handed_back(error: UnavailableError, offered: object) -> UnavailableError:
    """Return the error with the caller's own values, not the log's drafts, in `.write`."""
    if error.write is not None:
        error.write = offered
    return error.with_traceback(None)


def finish(wait: Callable[..., object], *args: object) -> None:
    """Wait for a written request; UnknownError if its log is closed meanwhile.

    The caller has no receipt yet, and could not distinguish ClosedError from a refused write.
    """
    try:
        wait(*args)
    except ClosedError as error:
        raise UnknownError(error) from error


def _wanted(
    asked: Durability,
    level: Durability | DurabilityName | None,
    durability_max: Durability,
    timeout_s: float | None,
) -> Durability:
    check_timeout(timeout_s)
    wanted = asked if level is None else check_level(level, durability_max)
    # In a log that reaches written, an append is written before it is seen as applied.
    return max(wanted, min(Durability.WRITTEN, durability_max))


def _settle(outcome: Outcome, level: Durability, timeout_s: float | None, offered: object) -> None:
    try:
        outcome.wait(level, timeout_s)
    except UnavailableError as error:
        raise handed_back(error, offered) from error.__cause__
    except FailedError as error:
        raise _fenced(error) or error from error.__cause__


async def _settle_on_loop(
    outcome: Outcome, level: Durability, timeout_s: float | None, offered: object
) -> None:
    try:
        await outcome.wait_on_loop(level, timeout_s)
    except UnavailableError as error:
        raise handed_back(error, offered) from error.__cause__
    except FailedError as error:
        raise _fenced(error) or error from error.__cause__


def _fenced(error: FailedError) -> ClosedError | None:
    """Return the error to raise for a failure caused by a newer writer; None for other failures.

    A write in progress keeps its UnknownError.
    """
    cause = error.__cause__
    if isinstance(cause, ClosedError) and not isinstance(error, UnknownError):
        return copy(cause)
    return None
