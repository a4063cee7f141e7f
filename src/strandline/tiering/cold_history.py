"""A partition's history, as far as copies hold it."""

from collections.abc import Iterator, Sequence

from strandline.log import Damage, History, Piece
from strandline.tiering.cold_rows import ColdEntry, entries_of
from strandline.tiering.cold_segments import ColdSegments
from strandline.tiering.parquet import CopiedRows
from strandline.tiering.segment import UserPartition
from strandline.values import CorruptError, Epoch, ProofFinding


class ColdHistory:
    """Reads one partition's copies as a log reads its storage; `stored` is the store's part."""

    def __init__(
        self, cold: ColdSegments, place: UserPartition, epochs: Sequence[Epoch], stored: History
    ) -> None:
        self._cold = cold
        self._place = place
        self._epochs = epochs
        self._chain = stored.chain
        self._is_proved = stored.is_proved

    def value_before(self, offset: int) -> bytes | None:
        """Return the chain's value before `offset`; None if no copy has it."""
        if not self._is_proved:
            return None
        if offset == 0:
            return self._chain.origin
        try:
            rows = self._cold.fetched(self._place, self._epochs, offset)[1]
            digests = rows.digests()[: offset - rows.about.start]
        except CorruptError:
            return None
        assert rows.about.chain is not None
        value = bytes.fromhex(rows.about.chain[0])
        return [value, *self._chain.link_each(value, digests)][-1]

    def pieces(self, start: int, stop: int) -> Iterator[Piece | Damage | ProofFinding]:
        """Yield the records of [start, stop); damaged ones are reported and skipped.

        TrimmedError if a trim has overtaken it.
        """
        while start < stop:
            end = stop
            try:
                end = min(stop, self._cold.find(self._place, self._epochs, start).end)
                segment, rows = self._cold.fetched(self._place, self._epochs, start)
                end = min(stop, segment.end)
                rows.check(segment.start, segment.end)
                yield from self._of_copy(rows, start, end)
            except CorruptError as error:
                self._cold.check_kept(self._place, start)
                yield Damage(start, end, str(error))
            start = end

    def _of_copy(self, rows: CopiedRows, start: int, stop: int) -> Iterator[Piece | ProofFinding]:
        entries = (
            entry for batch in rows.batches(start, stop) for entry in entries_of(rows, batch)
        )
        if not self._is_proved or rows.about.chain is None:
            yield from (Piece([entry], None) for entry in entries)
            return
        before, after = map(bytes.fromhex, rows.about.chain)
        digests, first = rows.digests(), rows.about.start
        values = list(self._chain.link_each(before, digests))
        if values[-1] == after:
            # These digests were chained: a changed record has another digest.
            yield from (Piece([entry], values[entry.offset - first]) for entry in entries)
            return
        kept = list(entries)
        yield from self._wrong_digests(kept, digests[start - first :])
        yield Piece(kept, after if stop == rows.about.end else None)

    def _wrong_digests(
        self, entries: Sequence[ColdEntry], digests: Sequence[bytes]
    ) -> Iterator[ProofFinding]:
        for entry, digest in zip(entries, digests, strict=False):
            if self._chain.digest_kept(entry) != digest:
                yield ProofFinding(entry.offset, "its copy has the digest of another record")
