"""Receipts of a file log: places in what one or more writes of coordinators came to."""

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import msgspec

from strandline.log.numbers import check_timeout
from strandline.log.receipt_looks import (
    receipt_html,
    receipt_text,
    receipts_html,
    receipts_text,
)
from strandline.log.terms import check_level
from strandline.stores.files.appends import Append, Placed
from strandline.values import Durability, Offset, Partition, UnavailableError
from strandline.writes import Receipt as WriteReceipt

_WRITTEN = Durability.WRITTEN
_DURABLE = Durability.DURABLE


# A struct, because one is made for each append and a struct is made in C.
class FileReceipt(msgspec.Struct, eq=False):
    """Implements Receipt."""

    _outcome: WriteReceipt[Placed]
    _partition: Partition
    _level: Durability
    _offered: object
    _index: int = 0

    @property
    def is_settled(self) -> bool:
        return self._outcome.is_settled

    @property
    def partition(self) -> Partition:
        self._placed()
        return self._partition

    @property
    def offset(self) -> Offset:
        placed = self._placed()
        repeats = len(placed.originals)
        if self._index < repeats:
            return placed.originals[self._index].offset
        return Offset(placed.offset + self._index - repeats)

    @property
    def timestamp_us(self) -> int:
        placed = self._placed()
        if self._index < len(placed.originals):
            return placed.originals[self._index].timestamp_us
        return placed.timestamp_us

    @property
    def is_repeat(self) -> bool:
        return self._index < len(self._placed().originals)

    @property
    def level(self) -> Durability | None:
        return self._outcome.level

    def __repr__(self) -> str:
        return receipt_text(self)

    def _repr_html_(self) -> str:
        return receipt_html(self)

    def wait(
        self, level: Durability | None = None, timeout_s: float | None = None
    ) -> "FileReceipt":
        settle(self._outcome, wanted(self._level, level, timeout_s), timeout_s, self._offered)
        return self

    async def reached(
        self, level: Durability | None = None, timeout_s: float | None = None
    ) -> "FileReceipt":
        least = wanted(self._level, level, timeout_s)
        await settle_on_loop(self._outcome, least, timeout_s, self._offered)
        return self

    def __await__(self) -> "Generator[Any, None, FileReceipt]":
        return self.reached().__await__()

    def _placed(self) -> Placed:
        if not self._outcome.is_settled:
            raise UnavailableError("the outcome is still open, wait for the receipt")
        return self._outcome.wait()


class Part(NamedTuple):
    """What one partition got of an append."""

    partition: Partition
    indices: Sequence[int]
    outcome: WriteReceipt[Placed]


class FileReceipts(Sequence[FileReceipt]):
    """Implements Receipts."""

    def __init__(
        self, count: int, parts: Sequence[Part], level: Durability, offered: object
    ) -> None:
        self._count = count
        self._parts = parts
        self._level = level
        self._offered = offered
        self._places: dict[int, tuple[Part, int]] | None = None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> FileReceipt:  # type: ignore[override]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        part, place = self._place(index % self._count)
        return FileReceipt(part.outcome, part.partition, self._level, self._offered, place)

    def __repr__(self) -> str:
        return receipts_text(self)

    def _repr_html_(self) -> str:
        return receipts_html(self)

    def wait(
        self, level: Durability | None = None, timeout_s: float | None = None
    ) -> "FileReceipts":
        least = wanted(self._level, level, timeout_s)
        for part in self._parts:
            settle(part.outcome, least, timeout_s, self._offered)
        return self

    async def reached(
        self, level: Durability | None = None, timeout_s: float | None = None
    ) -> "FileReceipts":
        least = wanted(self._level, level, timeout_s)
        for part in self._parts:
            await settle_on_loop(part.outcome, least, timeout_s, self._offered)
        return self

    def __await__(self) -> "Generator[Any, None, FileReceipts]":
        return self.reached().__await__()

    def _place(self, index: int) -> tuple[Part, int]:
        if len(self._parts) == 1:
            return self._parts[0], index
        if self._places is None:
            self._places = {
                number: (part, place)
                for part in self._parts
                for place, number in enumerate(part.indices)
            }
        return self._places[index]


def wanted(asked: Durability, level: Durability | None, timeout_s: float | None) -> Durability:
    """Return the level to wait for; what is applied here is written."""
    check_timeout(timeout_s)
    return max(asked if level is None else check_level(level, _DURABLE), _WRITTEN)


def settle(
    outcome: WriteReceipt[Placed], level: Durability, timeout_s: float | None, offered: object
) -> None:
    """Return once the write has reached `level`, or raise."""
    try:
        outcome.wait(level, timeout_s)
    except UnavailableError as error:
        raise handed_back(error, offered) from error.__cause__


async def settle_on_loop(
    outcome: WriteReceipt[Placed], level: Durability, timeout_s: float | None, offered: object
) -> None:
    """Do what `settle` does, asleep on the running event loop."""
    try:
        await outcome.reached(level, timeout_s)
    except UnavailableError as error:
        raise handed_back(error, offered) from error.__cause__


def handed_back(error: UnavailableError, offered: object) -> UnavailableError:
    """Return the error with what the caller offered in place of what we made of it."""
    if isinstance(error.write, Append):
        error.write = offered
    return error.with_traceback(None)
