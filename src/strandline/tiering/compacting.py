"""Which neighbouring objects are worth merging into one. See design 0119."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from strandline.log import Log
from strandline.tiering.copying import PIECE_BYTES, SchemaRun
from strandline.tiering.footer import Footer
from strandline.tiering.object_store import ObjectStore
from strandline.tiering.segment import CopiedSegment, UserPartition
from strandline.typed import definition_of
from strandline.values import ValueKind

COMPACT_BYTES: Final = 64 * 1024 * 1024
"""How large merged objects become, if nothing else is said."""
GRACE_S: Final = 3600
"""How long objects that were merged stay, for programs that have begun to read them."""
RECORD_BYTES_MAX: Final = 4 * PIECE_BYTES
"""How much is read into memory for one object."""


def merges_of(copies: Sequence[CopiedSegment], bytes_max: int) -> Sequence[Sequence[CopiedSegment]]:
    """Return runs of copies, each of which becomes an object of up to `bytes_max`.

    None of them has more than two thirds of it: an object grows by half at least whenever
    it is written again, so that a record is not written more than about forty times.
    """
    found: list[Sequence[CopiedSegment]] = []
    for run in _full(copies, bytes_max):
        found += _worthwhile(run)
    return found


def _full(copies: Sequence[CopiedSegment], bytes_max: int) -> Iterator[Sequence[CopiedSegment]]:
    """Yield copies that follow each other and fit one object, as many as do."""
    run: list[CopiedSegment] = []
    size = records = end = 0
    for copy in copies:
        size, records = size + copy.size_bytes, records + copy.record_bytes
        is_next = copy.start <= end
        if run and (not is_next or size > bytes_max or records > RECORD_BYTES_MAX):
            yield run
            run, size, records, end = [], copy.size_bytes, copy.record_bytes, 0
        run.append(copy)
        end = max(end, copy.end)
    yield run


def _worthwhile(run: Sequence[CopiedSegment]) -> list[Sequence[CopiedSegment]]:
    """Return the parts of a run in which the others have half of what the largest has.

    Or all of it, if two overlap: by processes that copied at once what still grew.
    """
    if any(one.end > other.start for one, other in pairwise(run)):
        return [run]
    found: list[Sequence[CopiedSegment]] = []
    left = [run]
    while left:
        part = left.pop()
        if len(part) < 2:  # noqa: PLR2004 - One needs no merging.
            continue
        sizes = [each.size_bytes for each in part]
        at = sizes.index(max(sizes))
        if 3 * sizes[at] <= 2 * sum(sizes):
            found.append(part)
        else:
            left += [part[at + 1 :], part[:at]]
    return found


def uniform_parts(
    log: Log, place: UserPartition, members: Sequence[CopiedSegment], store: ObjectStore
) -> Sequence[Sequence[CopiedSegment]]:
    """Return the parts whose batches can be the columns of one object.

    Objects of events and bytes all can. Batches that are packed stay apart, or else the
    columns of the others would be packed as well.
    """
    if log.describe_topic(place.named()).settings.value_kind is not ValueKind.BATCH:
        return [members]
    definition = definition_of(log, place.named())
    parts: list[list[CopiedSegment]] = []
    run, was_packed = SchemaRun(definition), False
    for copy in members:
        footer = Footer.of(store, copy.name, copy.size_bytes)
        if footer is None:
            parts.append([])  # Reading it raises.
            continue
        is_alike = bool(parts) and footer.is_packed == was_packed
        if not is_alike or not run.takes(footer.value_schemas):
            parts.append([])
            run = SchemaRun(definition)
            run.takes(footer.value_schemas)
        parts[-1].append(copy)
        was_packed = footer.is_packed
    return [part for part in parts if len(part) > 1]
