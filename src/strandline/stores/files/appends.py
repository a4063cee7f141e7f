"""Appends, collected and encoded into frames."""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Final, NamedTuple

from strandline.clock import Clock
from strandline.log.chain import Chain, link
from strandline.log.decide import decide, record_identities
from strandline.log.draft import Draft
from strandline.log.draft_columns import COLUMNS_MIN, size_of
from strandline.log.identities import Identities
from strandline.log.store import AppendRequest, Placement
from strandline.stores.files.columnar import Compression, encode_drafts
from strandline.stores.files.frame import (
    COLUMNS,
    FRAME_BYTES_MAX,
    HAS_TERMS,
    HEADER_BYTES,
    LAG_UNKNOWN,
    LARGE_BYTES,
    ROWS,
    FrameTerms,
    encode_frame,
    encode_pieces,
    encode_row,
    encode_rows,
    encode_terms,
)
from strandline.values import InvalidError, StrandlineError, ValueKind

# Calling a named tuple's class is slow, and each append makes some.
_new: Any = tuple.__new__
_COLUMNS_MIN = COLUMNS_MIN


class Head:
    """Where the next frame of a partition goes. Owned by the holder of the partition's lock."""

    __slots__ = (
        "chain",
        "clock",
        "compression",
        "crc",
        "delta",
        "durable",
        "identities",
        "kind",
        "last_us",
        "next",
        "position",
        "refusal",
        "seed",
        "size_bytes",
        "value",
    )

    def __init__(
        self,
        clock: Clock,
        kind: ValueKind,
        compression: Compression | None,
        identities: Callable[[int], Identities],
    ) -> None:
        self.clock: Final = clock
        self.kind: Final = kind
        self.compression = compression
        #: Returns the identities recognised at a time, for records before `next`.
        self.identities: Final = identities
        #: Takes the writes of a drain.
        self.delta: AppendDelta | RefusingDelta
        #: The error that every write raises now; None if writing is possible.
        self.refusal: StrandlineError | None = None
        #: In a topic with a proof: its chain, and the value before `next`.
        self.chain: Chain | None = None
        self.value: bytes = b""
        self.seed: int = 0
        self.crc: int = 0
        self.durable: int = 0
        self.next: int = 0
        self.position: int = 0
        self.last_us: int = 0
        self.size_bytes: int = 0


class RefusingDelta:
    """Implements Delta for a partition that cannot be written: each write raises the reason."""

    def __init__(self, refusal: StrandlineError) -> None:
        self._refusal = refusal

    def apply(self, write: AppendRequest) -> Placement:  # noqa: ARG002 - Whatever it is.
        raise copy(self._refusal)

    def size(self) -> int:
        return 0

    def freeze(self) -> "tuple[Frozen, Head]":
        raise AssertionError("nothing was applied")

    def reader(self) -> None:
        return None


class Frozen(NamedTuple):
    """The frames of one drain, large ones in pieces, and where they end."""

    chunks: list[bytes | memoryview]
    next: int
    position: int
    last_us: int
    crc: int
    size_bytes: int


class AppendDelta:
    """Implements Delta. One object serves all drains: freezing leaves it empty."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._chunks: list[bytes | memoryview] = []
        self._size_bytes = 0

    def apply(self, write: AppendRequest) -> Placement:
        head = self._head
        decision = decide(head, write, head.clock.now_us())
        now_us, originals = decision
        offset = head.next
        if write.producer is None and write.idempotency_key is None:
            tenant = write.tenant
            self._add(write.drafts, now_us, None if tenant is None else FrameTerms(tenant))
        elif len(originals) < len(write.drafts):
            self._add(write.drafts[len(originals) :], now_us, _frame_terms(write, len(originals)))
            record_identities(head, write, decision, offset)
        placement: Placement = _new(Placement, (offset, now_us, originals))
        return placement

    def size(self) -> int:
        return self._size_bytes

    def freeze(self) -> tuple[Frozen, Head]:
        head, chunks = self._head, self._chunks
        self._chunks = []
        self._size_bytes = 0
        about = (head.next, head.position, head.last_us, head.crc, head.size_bytes)
        return _new(Frozen, (chunks, *about)), head

    def reader(self) -> None:
        return None

    # --- inside ---

    def _add(self, drafts: Sequence[Draft], now_us: int, terms: FrameTerms | None) -> None:
        head = self._head
        count = len(drafts)
        value = b""
        if head.chain is not None:
            terms = terms or FrameTerms()
            terms.chain = value = self._chained(head.chain, drafts, now_us, terms.tenant)
        if count == 1:
            kind, flags, body = ROWS, 0, encode_row(drafts[0])
        elif count < _COLUMNS_MIN or head.kind is ValueKind.BATCH:
            kind, flags, body = ROWS, 0, [encode_rows(drafts)]
        else:
            flags, columns = encode_drafts(head.kind, drafts, head.compression)
            kind, body = COLUMNS, [columns]
        if terms is not None:
            flags |= HAS_TERMS
            body.insert(0, encode_terms(terms))
        size = len(body[0]) if len(body) == 1 else sum(map(len, body))
        if size > FRAME_BYTES_MAX:
            raise InvalidError(
                "these values are too large for one append, append fewer at a time",
                bytes=size,
                bytes_max=FRAME_BYTES_MAX,
            )
        lag = head.next - head.durable
        lag = min(lag, LAG_UNKNOWN)
        about = (kind, flags, head.next, count, now_us, lag)
        if size < LARGE_BYTES:
            whole = body[0] if len(body) == 1 else b"".join(body)
            frame, head.crc = encode_frame(head.seed, head.crc, about, whole)
            self._chunks.append(frame)
        else:
            pieces, head.crc = encode_pieces(head.seed, head.crc, about, body)
            self._chunks += pieces
        size += HEADER_BYTES
        self._size_bytes += size
        head.value = value
        head.next += count
        head.position += size
        head.last_us = now_us
        head.size_bytes += drafts[0][2] if count == 1 else size_of(drafts)

    def _chained(
        self, chain: Chain, drafts: Sequence[Draft], now_us: int, tenant: str | None
    ) -> bytes:
        value = self._head.value
        for offset, draft in enumerate(drafts, self._head.next):
            value = link(value, chain.digest(offset, now_us, draft.key, tenant, draft.body))
        return value


def _frame_terms(write: AppendRequest, repeats: int) -> FrameTerms:
    if write.idempotency_key is not None:
        return FrameTerms(write.tenant, idempotency_key=write.idempotency_key)
    numbers = write.sequences[repeats:]
    first = numbers[0]
    follows_on = all(number == first + index for index, number in enumerate(numbers))
    rest = None if follows_on else list(numbers)
    return FrameTerms(write.tenant, write.producer, first, None, rest)
