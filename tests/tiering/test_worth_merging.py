"""Which copies are merged, and how often a record is written."""

import pytest

from strandline.tiering.compacting import merges_of
from strandline.tiering.segment import CopiedSegment
from tests.tiering.test_catalogue import segment


def sized(*sizes: int) -> list[CopiedSegment]:
    return [segment(10 * at, 10 * at + 10, size_bytes=size) for at, size in enumerate(sizes)]


def runs(copies: list[CopiedSegment], bytes_max: int) -> list[list[int]]:
    return [[each.start // 10 for each in run] for run in merges_of(copies, bytes_max)]


@pytest.mark.parametrize(
    ("sizes", "bytes_max", "expected"),
    [
        ((), 100, []),
        ((10,), 100, []),
        ((10, 10, 10), 100, [[0, 1, 2]]),
        ((50, 50, 50, 50), 100, [[0, 1], [2, 3]]),
        ((90, 5, 5), 100, [[1, 2]]),
        ((5, 5, 90), 100, [[0, 1]]),
        ((101, 10, 10, 101), 100, [[1, 2]]),
        ((30, 10), 100, []),
        ((20, 10), 100, [[0, 1]]),
    ],
)
def test_copies_are_merged_with_as_much_as_they_are(
    sizes: tuple[int, ...], bytes_max: int, expected: list[list[int]]
) -> None:
    assert runs(sized(*sizes), bytes_max) == expected


def test_copies_with_a_gap_between_them_are_not_merged() -> None:
    first, second, third, fourth = sized(10, 10, 10, 10)

    assert runs([first, second, fourth], 100) == [[0, 1]]
    assert runs([first, third], 100) == []


def test_a_record_is_written_a_logarithmic_number_of_times() -> None:
    copies: list[CopiedSegment] = []
    written, count = 0, 512

    for number in range(count):
        copies.append(segment(number, number + 1, size_bytes=1))
        for run in merges_of(copies, count):
            at = copies.index(run[0])
            size = sum(each.size_bytes for each in run)
            copies[at : at + len(run)] = [segment(run[0].start, run[-1].end, size_bytes=size)]
            written += size

    assert len(copies) < 10
    assert written <= count * 15  # The logarithm of 512 to the base of 1.5.
