"""Decides which neighbouring objects are worth merging into one. See design 0119."""

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
"""The default size limit of merged objects."""
GRACE_S: Final = 3600
"""How long objects stay after they were merged, for programs that are reading them."""
RECORD_BYTES_MAX: Final = 4 * PIECE_BYTES
"""The memory limit for reading one object."""


def merges_of(copies: Sequence[CopiedSegment], bytes_max: int) -> Sequence[Sequence[CopiedSegment]]:
    """Return runs of copies, each of which becomes an object of up to `bytes_max`.

    No copy in them is larger than two thirds of that: an object grows by at least half whenever
    it is rewritten, so that a record is rewritten at most about forty times.
    """
    found: list[Sequence[CopiedSegment]] = []
    for run in _full(copies, bytes_max):
        found += _worthwhile(run)
    return found


def _full(copies: Sequence[CopiedSegment], bytes_max: int) -> Iterator[Sequence[CopiedSegment]]:
    """Yield runs of adjacent copies, as long as they fit one object."""
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
    """Return the parts of a run in which the others total at least half of the largest.

    Or the whole run, if two overlap because processes concurrently copied a growing run.
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
    """Return the parts whose batches can be columns of the same object.

    Objects of events and bytes always can. Packed batches are kept separate; otherwise the
    columns of the others would be packed, too.
    """
    if log.describe_topic(place.named()).settings.value_kind is not ValueKind.BATCH:
        return [members]
    definition = definition_of(log, place.named())
    parts: list[list[CopiedSegment]] = []
    run, was_packed = SchemaRun(definition), False
    for copy in members:
        footer = Footer.of(store, copy.name, copy.size_bytes)
        if footer is None:
            parts.append([])  # Reading it raises the error.
            continue
        is_alike = bool(parts) and footer.is_packed == was_packed
        if not is_alike or not run.takes(footer.value_schemas):
            parts.append([])
            run = SchemaRun(definition)
            run.takes(footer.value_schemas)
        parts[-1].append(copy)
        was_packed = footer.is_packed
    return [part for part in parts if len(part) > 1]
