"""A caller's transaction, and the outcome of its appends. See design 0097."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from strandline.clock import Clock, deadline_in
from strandline.log.store import AppendRequest, Placement
from strandline.stores.block_end import BlockEnd, still_open
from strandline.stores.postgres.callers import CallersTransaction
from strandline.stores.postgres.database import Connection
from strandline.stores.postgres.topics import PostgresTopic
from strandline.values import Durability, StrandlineError, UnavailableError

_WRITTEN = Durability.WRITTEN


class PostgresBlock:
    """The state of a transaction from its begin to its end."""

    def __init__(self, block_id: UUID, caller: CallersTransaction) -> None:
        self.id = block_id
        self.caller = caller
        self.over: Final = BlockEnd()
        self.pending: list[PendingAppend] = []
        #: The ends of the partitions of these slots, once assigned.
        self.ends: dict[int, int] = {}
        #: One of its new records, which shows whether it was committed.
        self.witness: Witness | None = None
        self.is_committing = False

    @contextlib.contextmanager
    def plain(self) -> Iterator[Connection]:
        """Yield the caller's connection, with the row and cursor classes used here."""
        connection = self.caller.connection()
        kept = connection.row_factory, connection.cursor_factory
        connection.row_factory = tuple_row
        connection.cursor_factory = psycopg.Cursor
        try:
            yield connection
        finally:
            connection.row_factory, connection.cursor_factory = kept


class Witness:
    """A record stored by a block: its slot, place and time, and the row's xmin."""

    def __init__(self, slot: int, place: int, timestamp_us: int, xmin: str) -> None:
        self.slot = slot
        self.row: Final = (place, timestamp_us, xmin)


class PendingAppend:
    """Implements Outcome: an append inside a block, placed when the block is left."""

    def __init__(
        self,
        block: PostgresBlock,
        topic: PostgresTopic,
        partition: int,
        request: AppendRequest,
        *,
        durability_max: Durability,
        clock: Clock,
    ) -> None:
        self._block = block
        self._clock = clock
        self._durability_max = durability_max
        self.number: Final = len(block.pending)
        self.topic = topic
        self.partition = partition
        self.request = request
        self.placement: Placement | None = None
        #: Why nothing of it is stored, if that is known.
        self.error: StrandlineError | None = None

    @property
    def slot(self) -> int:
        """The slot of its partition."""
        return self.topic.slots[self.partition]

    @property
    def is_settled(self) -> bool:
        return self._block.over.is_over

    @property
    def level(self) -> Durability | None:
        return self._durability_max if self.is_settled and self.error is None else None

    def result(self) -> Placement:
        if self.error is not None:
            raise self.error.with_traceback(None)
        if self.placement is None or not self.is_settled:
            raise UnavailableError(
                "the offset is assigned when the transaction ends, leave it first"
            )
        return self.placement

    def wait(self, level: Durability = _WRITTEN, timeout_s: float | None = None) -> Placement:
        del level
        self._block.over.wait(self._clock, deadline_in(self._clock, timeout_s))
        return self.result()

    async def wait_on_loop(
        self, level: Durability = _WRITTEN, timeout_s: float | None = None
    ) -> Placement:
        del level
        try:
            async with asyncio.timeout(timeout_s):
                await self._block.over.wait_on_loop()
        except TimeoutError:
            raise still_open() from None
        return self.result()
