"""Pages of a read that is limited in bytes."""

from collections.abc import Iterator, Sequence

import pytest

from strandline.log.ranges import count_within
from strandline.log.record_lists import pages_within
from strandline.log.stored_records import StoredRecord
from strandline.values import Offset

SIZES = (3, 1, 4, 0, 5, 2)


def records() -> list[StoredRecord]:
    return [
        StoredRecord(Offset(offset), 0, None, None, b"", size, None)
        for offset, size in enumerate(SIZES)
    ]


@pytest.mark.parametrize("length", range(1, len(SIZES) + 1))
@pytest.mark.parametrize("bytes_max", [None, *range(sum(SIZES) + 2)])
def test_a_limit_holds_over_all_pages_of_a_read(length: int, bytes_max: int | None) -> None:
    stored = records()
    pages = [stored[start : start + length] for start in range(0, len(stored), length)]

    kept = [each for page in pages_within(pages, bytes_max) for each in page]

    within = count_within(SIZES, bytes_max)
    # At the limit a read may end before records that have no bytes.
    assert sum(each.size_bytes for each in kept) == sum(SIZES[:within])
    assert kept == stored[: len(kept)]


def test_no_page_is_read_that_the_limit_leaves_out() -> None:
    read: list[Sequence[StoredRecord]] = []

    def pages() -> Iterator[Sequence[StoredRecord]]:
        for record in records():
            read.append([record])
            yield [record]

    assert len(list(pages_within(pages(), SIZES[0]))) == len(read) == 1
    assert not list(pages_within(pages(), 0))
    assert len(read) == 1
