"""Receipts of a memory log: the outcome is always known."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from strandline.log.numbers import check_timeout
from strandline.log.receipt_looks import (
    receipt_html,
    receipt_text,
    receipts_html,
    receipts_text,
)
from strandline.log.terms import check_level
from strandline.values import Durability, Offset, Partition

_APPLIED = Durability.APPLIED


@dataclass(frozen=True, slots=True, repr=False)
class MemoryReceipt:
    """Implements Receipt."""

    partition: Partition
    offset: Offset
    timestamp_us: int
    is_repeat: bool

    @property
    def is_settled(self) -> bool:
        return True

    @property
    def level(self) -> Durability:
        return _APPLIED

    def wait(
        self, level: Durability | None = None, timeout_s: float | None = None
    ) -> "MemoryReceipt":
        _check_wait(level, timeout_s)
        return self

    async def reached(
        self, level: Durability | None = None, timeout_s: float | None = None
    ) -> "MemoryReceipt":
        return self.wait(level, timeout_s)

    def __await__(self) -> Generator[Any, None, "MemoryReceipt"]:
        return self.reached().__await__()

    def __repr__(self) -> str:
        return receipt_text(self)

    def _repr_html_(self) -> str:
        return receipt_html(self)


class MemoryReceipts(tuple[MemoryReceipt, ...]):
    """Implements Receipts."""

    __slots__ = ()

    def wait(
        self, level: Durability | None = None, timeout_s: float | None = None
    ) -> "MemoryReceipts":
        _check_wait(level, timeout_s)
        return self

    async def reached(
        self, level: Durability | None = None, timeout_s: float | None = None
    ) -> "MemoryReceipts":
        return self.wait(level, timeout_s)

    def __await__(self) -> Generator[Any, None, "MemoryReceipts"]:
        return self.reached().__await__()

    def __repr__(self) -> str:
        return receipts_text(self)

    def _repr_html_(self) -> str:
        return receipts_html(self)


def _check_wait(level: Durability | None, timeout_s: float | None) -> None:
    check_timeout(timeout_s)
    if level is not None:
        check_level(level, _APPLIED)
