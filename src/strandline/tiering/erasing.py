"""Erases the records of a key in the tier: replaces each object with one. See design 0123."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from strandline.log import EventBody, Log, parts_of
from strandline.log.erased import tombstone
from strandline.tiering.arrow_parts import compute, parquet
from strandline.tiering.catalogue import SegmentCatalogue, saved_catalogue
from strandline.tiering.object_store import ObjectStore
from strandline.tiering.parquet import (
    DIGEST,
    FIELDS,
    METADATA_KEY,
    CopiedRows,
    digest_of,
    encode,
    record_sizes,
)
from strandline.tiering.removal import retire
from strandline.tiering.routing import topic_folder
from strandline.tiering.segment import GIVEN_UP, CopiedSegment, SegmentState, UserPartition
from strandline.values import CorruptError, UnavailableError, ValueKind
from strandline.views import RefusedError

OpenStore = Callable[[str], ObjectStore]

_ATTEMPTS_MAX: Final = 20


def erase_copies(
    log: Log, place: UserPartition, key: str, oldest: int, opened: OpenStore, *, dry_run: bool
) -> int:
    """Erase a key's records in all copies; return how many lie before `oldest`.

    Those are no longer in the log itself; the others were counted there. An interrupted run
    is completed by the next one.
    """
    with saved_catalogue(log) as catalogue:
        catalogue.follow([place])
        catalogue.check_whole()
        erasing = _CopyErasing(log, catalogue, place, opened)
        for _ in range(_ATTEMPTS_MAX):
            if not dry_run:
                erasing.settle()
            # Refused, if merging of a copy has begun meanwhile.
            with contextlib.suppress(RefusedError):
                return erasing.run(key, oldest, dry_run=dry_run)
    raise UnavailableError("other processes keep merging copies, try again", topic=place.topic)


class _CopyErasing:
    def __init__(
        self, log: Log, catalogue: SegmentCatalogue, place: UserPartition, opened: OpenStore
    ) -> None:
        self._log = log
        self._catalogue = catalogue
        self._place = place
        self._opened = opened
        self._clock = parts_of(log).clock
        #: The offsets of the records that were erased, or would be.
        self._counted: set[int] = set()

    def settle(self) -> None:
        """Remove copies that were not finished, and those that were replaced or merged."""
        found = self._segments()
        replaced = {
            old
            for each in found
            if each.state is SegmentState.COPY_FINISHED
            for old in each.predecessors
        }
        self._retire(
            [
                each
                for each in found
                if (each.state is SegmentState.DELETE_STARTED and each.note_text != GIVEN_UP)
                or each.id in replaced
                or (each.predecessors and each.state is SegmentState.COPY_STARTED)
            ]
        )

    def run(self, key: str, oldest: int, *, dry_run: bool) -> int:
        """Replace each copy with a record of the key; return how many lie before `oldest`."""
        for segment in self._segments():
            if segment.state is not SegmentState.COPY_FINISHED:
                continue
            rows, table = self._read(segment)
            mask = compute().fill_null(compute().equal(table.column("_key"), key), False)
            offsets = table.column("_offset").filter(mask).to_pylist()
            if not offsets:
                continue
            self._counted.update(each for each in offsets if each < oldest)
            if not dry_run:
                self._replace(segment, _erased(table, mask, rows), rows)
        return len(self._counted)

    def _segments(self) -> Sequence[CopiedSegment]:
        self._catalogue.refresh()
        return list(self._catalogue.segments(self._place))

    def _read(self, segment: CopiedSegment) -> tuple[CopiedRows, pa.Table]:
        content = self._opened(segment.store).get(segment.name)
        if content is None or digest_of(content) != segment.digest:
            raise CorruptError(
                "a copy in the tier is missing or damaged, so that nothing in it can be erased",
                file=segment.location,
                position=0,
            )
        table = parquet().read_table(pa.BufferReader(content))
        kept = {
            name: value
            for name, value in (table.schema.metadata or {}).items()
            if name != METADATA_KEY
        }
        return CopiedRows(content, segment.location), table.replace_schema_metadata(kept or None)

    def _replace(self, old: CopiedSegment, table: pa.Table, rows: CopiedRows) -> None:
        # The bounds of declared fields include the erased values, so drop them.
        about = msgspec.structs.replace(rows.about, fields=None)
        content = encode(table.to_batches(), about)
        kind = rows.about.value_kind
        sizes = (compute().sum(record_sizes(each, kind)).as_py() for each in table.to_batches())
        digest, fresh_id = digest_of(content), self._clock.new_id()
        fresh = msgspec.structs.replace(
            old,
            id=fresh_id,
            record_bytes=sum(sizes),
            size_bytes=len(content),
            digest=digest,
            name=f"{topic_folder(self._place.named())}/{old.place.partition}"
            f"/{old.start:020d}-{old.end:020d}-{digest[:16]}-{fresh_id.hex}.parquet",
            changed_at_us=self._clock.now_us(),
            note_text=None,
            note_bytes=None,
            state=SegmentState.COPY_STARTED,
            replaces=old.id,
            merges=(),
        )
        self._catalogue.add(fresh)
        store = self._opened(fresh.store)
        note = store.put(fresh.name, content)
        if store.get(fresh.name) != content:
            raise UnavailableError(
                "the object store did not keep what was put there, try again",
                location=fresh.location,
            )
        self._catalogue.change(fresh, SegmentState.COPY_FINISHED, note=note)
        self._retire([old])

    def _retire(self, segments: Sequence[CopiedSegment]) -> None:
        if segments:
            low = int(self._log.marks(self._place.named(), self._place.partition).low)
            lows = {self._place: low}
            retire(self._log, self._catalogue, segments, lows, self._opened)


def _erased(table: pa.Table, mask: pa.ChunkedArray, rows: CopiedRows) -> pa.Table:
    """Return the rows, with tombstones for those selected by the mask."""
    kind, count = rows.about.value_kind, compute().sum(mask).as_py()
    digests: Sequence[bytes | None] = [None] * count
    if DIGEST in rows.added:
        digests = table.column(DIGEST).filter(mask).to_pylist()
    bodies = [tombstone(kind, digest) for digest in digests]
    columns: dict[str, Sequence[object]] = {"_key": [None] * count}
    if kind is ValueKind.EVENT:
        names = ("kind", "payload", "headers", "occurred_at")
        parts = zip(*[body for body in bodies if isinstance(body, EventBody)], strict=True)
        columns |= dict(zip(names, map(list, parts), strict=True))
    else:
        columns["value"] = bodies
    for name, values in columns.items():
        at = table.schema.get_field_index(name)
        field = table.schema.field(at)
        replaced = compute().replace_with_mask(
            table.column(at).combine_chunks(),
            mask.combine_chunks(),
            _array(values, field.type),
        )
        table = table.set_column(at, field, replaced)
    if FIELDS in rows.added:
        kept = compute().if_else(mask.combine_chunks(), None, pa.arange(0, table.num_rows))
        at = table.schema.get_field_index(FIELDS)
        table = table.set_column(at, table.schema.field(at), table.column(at).take(kept))
    return table


def _array(values: Sequence[object], arrow: pa.DataType) -> pa.Array:
    if pa.types.is_string(arrow):
        texts = [each.decode() if isinstance(each, bytes) else each for each in values]
        return pa.array(texts, arrow)
    return pa.array(values, arrow)
