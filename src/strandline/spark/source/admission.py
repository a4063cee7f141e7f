"""Limits how many of the new records a micro-batch takes."""

import math
from collections.abc import Callable, Mapping, Sequence

from strandline.spark.source.places import SourcePartition

Pieces = Sequence[tuple[int, int, float]]


def within_rows(
    starts: Mapping[SourcePartition, int], ends: Mapping[SourcePartition, int], rows_max: int
) -> dict[SourcePartition, int]:
    """Return ends with at most `rows_max` records before them.

    Each partition gets a share in proportion to its records, and, if the limit allows it, at
    least one record.
    """
    sizes = {place: end - starts[place] for place, end in ends.items()}
    total = sum(sizes.values())
    if total <= rows_max:
        return dict(ends)
    shares = {place: size * rows_max // total for place, size in sizes.items()}
    left = rows_max - sum(shares.values())
    # The partitions that got nothing come first, then those that were rounded down most.
    order = sorted(sizes, key=lambda p: (shares[p] > 0, -(sizes[p] * rows_max % total)))
    for place in order:
        if left and shares[place] < sizes[place]:
            shares[place] += 1
            left -= 1
    return {place: starts[place] + share for place, share in shares.items()}


def within_bytes(
    starts: Mapping[SourcePartition, int],
    ends: Mapping[SourcePartition, int],
    bytes_max: int,
    pieces_of: Callable[[SourcePartition, int, int], Pieces],
) -> dict[SourcePartition, int]:
    """Return ends with about `bytes_max` bytes before them, and a record of each partition.

    Sizes are estimated by the average size of the records in each stored run.
    """
    pieces = {
        place: pieces_of(place, starts[place], end)
        for place, end in ends.items()
        if starts[place] < end
    }
    sizes = {place: sum(size for _, _, size in each) for place, each in pieces.items()}
    total = sum(sizes.values())
    if total <= bytes_max:
        return dict(ends)
    found = dict(ends)
    for place, each in pieces.items():
        found[place] = _end_within(starts[place], each, bytes_max * sizes[place] / total)
    return found


def _end_within(start: int, pieces: Pieces, left: float) -> int:
    at = start
    for begin, end, size in pieces:
        if size > left:
            at = begin + math.floor((end - begin) * left / size)
            break
        at, left = end, left - size
    return max(at, start + 1)
