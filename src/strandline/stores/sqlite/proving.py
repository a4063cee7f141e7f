"""The history of a partition, read from its rows for verification."""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import chain

from strandline.log.chain import Chain
from strandline.log.history import Damage, History, Piece
from strandline.stores.sqlite.chain_values import SELECT_VALUES, checked_value, load_value
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.identities import check_identities
from strandline.stores.sqlite.partition_row import PartitionRow, load_partition, place
from strandline.stores.sqlite.records import RecordRow, Records, RowSpan
from strandline.stores.sqlite.schema import OFFSET_BITS
from strandline.values import CorruptError, Offset, ProofFinding, TrimmedError

_OFFSET_MASK = (1 << OFFSET_BITS) - 1


class Proving:
    """Reads the history of one partition, without a lock."""

    def __init__(self, database: Database, records: Records, chain: Chain) -> None:
        self._database = database
        self._records = records
        self._chain = chain

    def history(
        self, connection: sqlite3.Connection, row: PartitionRow, start: int, end: int | None
    ) -> History:
        """Return what is stored of [start, end), within the marks of the partition's row."""
        records, anchor = self._records, None
        low = max(start, row.first)
        high = max(low, row.high if end is None else min(end, row.high))
        if records.is_proved:
            path = self._database.path
            # If it is missing, verification reports it.
            with contextlib.suppress(CorruptError):
                anchor = load_value(connection, path, row.slot, low, self._chain)
        pieces: Iterable[Piece | Damage | ProofFinding] = self._pieces(low, high)
        if start <= row.low:
            pieces = chain(self._findings(connection, row), pieces)
        return History(
            *(records.partition, low, high, self._chain), *(anchor, records.is_proved, pieces)
        )

    def _findings(self, connection: sqlite3.Connection, row: PartitionRow) -> list[ProofFinding]:
        try:
            check_identities(connection, self._database.path, row)
        except CorruptError as error:
            return [ProofFinding(Offset(row.low), str(error))]
        return []

    def _pieces(self, start: int, end: int) -> Iterator[Piece | Damage]:
        """Yield the records one by one; damaged ones are reported and skipped.

        TrimmedError if a trim has overtaken it.
        """
        while start < end:
            try:
                for page in self._records.pages(RowSpan(start, end, None)):
                    values = self._values(page)
                    for entry in page:
                        yield Piece([entry], values.get(entry.offset))
                    start += len(page)
            except CorruptError as error:
                stop = self._next_readable(start, end)
                yield Damage(start, stop, str(error))
                start = stop

    def _values(self, page: list[RecordRow]) -> dict[int, bytes]:
        """Return the chain's values of a page by offset, except missing or damaged ones."""
        if not self._records.is_proved:
            return {}
        slot, path, values = self._records.slot, self._database.path, {}
        first = page[0].offset
        span = place(slot, first), place(slot, page[-1].offset + 1)
        with self._database.reading() as connection, self._database.translating():
            connection.execute("BEGIN")
            for row in connection.execute(SELECT_VALUES, span):
                with contextlib.suppress(CorruptError):
                    values[row[0] & _OFFSET_MASK] = checked_value(path, row)
            partition = load_partition(connection, path, slot)
        if partition is not None and partition.first > first:
            raise TrimmedError(partition.first, partition=self._records.partition)
        return values

    def _next_readable(self, start: int, end: int) -> int:
        """Return the offset of the next record that exists."""
        slot = self._records.slot
        try:
            with self._database.reading() as connection, self._database.translating():
                (found,) = connection.execute(
                    "SELECT min(place) FROM strandline_records WHERE place > ? AND place < ?",
                    (place(slot, start), place(slot, end)),
                ).fetchone()
        except CorruptError:
            return end
        return end if found is None else int(found) & _OFFSET_MASK
