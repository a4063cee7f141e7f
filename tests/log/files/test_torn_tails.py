"""A tail whose first slot a killed process has left in the middle of a store."""

from pathlib import Path
from typing import Any

import pytest

from strandline.io import SystemIo
from strandline.stores.files import partition
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.tail import END_BYTES, FENCE_AT, Fence, pack_fence
from strandline.values import Durability, Event
from tests.logs import file_log
from tests.planting import Bug

WORD = 8


def numbers_in(path: Path, mode: str = "read") -> list[object]:
    with file_log(str(path), mode=mode) as log:
        return [record.payload for record in log.read("t", 0, 0)]


def tail_of(path: Path) -> Path:
    (tail,) = path.rglob("*.tail")
    return tail


def torn(path: Path, *, word: int, mark: int) -> None:
    """Append ten events, the last of which has an end that is partly there."""
    with file_log(str(path)) as log:
        log.create_topic("t")
        for number in range(9):
            level = Durability.DURABLE if number < mark else Durability.WRITTEN
            log.append("t", Event("made", number), durability=level)
        before = tail_of(path).read_bytes()
        log.append("t", Event("made", 9))
    after = tail_of(path).read_bytes()
    tail_of(path).write_bytes(after[:word] + before[word:END_BYTES] + after[END_BYTES:])


@pytest.mark.parametrize("mark", [0, 5])
@pytest.mark.parametrize("word", range(WORD, END_BYTES, WORD))
def test_the_frames_have_what_a_torn_end_has_not(tmp_path: Path, word: int, mark: int) -> None:
    torn(tmp_path / "log", word=word, mark=mark)

    assert numbers_in(tmp_path / "log") == list(range(10))
    with file_log(str(tmp_path / "log")) as log:
        assert log.append("t", Event("made", 10)).offset == 10
        assert all(report.is_sound for report in log.verify("t"))
    assert numbers_in(tmp_path / "log") == list(range(11))


def fenced(path: Path, *, end: int | None, word: int = 40) -> None:
    """Have a torn end and a fence of a successor that was killed before it began."""
    torn(path, word=word, mark=5)
    with file_log(str(path), mode="read") as log:
        topics: Any = log._store.topics()  # noqa: SLF001 - For the partition's files.
        (files,) = topics[0].partitions
        frames = [frame for _, frame in files.frames(files.look(), 0, 10)]
    fence = Fence(1) if end is None else Fence(1, end, frames[end - 1].end)
    io = SystemIo()
    fd = io.open(str(tail_of(path)), "write")
    io.pwrite(fd, pack_fence(files.place.tail_seed(0), fence), FENCE_AT)
    io.close(fd)


def test_no_reader_goes_beyond_the_fence_of_a_torn_end(tmp_path: Path) -> None:
    fenced(tmp_path / "log", end=8)

    assert numbers_in(tmp_path / "log") == list(range(8))


@pytest.mark.parametrize("word", [40, END_BYTES], ids=["torn", "whole"])
def test_a_fence_that_has_no_end_hides_nothing_that_was_acknowledged(
    tmp_path: Path, word: int
) -> None:
    """Who fences has found the end torn; its writer may have gone on, and stored the rest."""
    fenced(tmp_path / "log", end=None, word=word)

    assert numbers_in(tmp_path / "log") == list(range(10))
    with file_log(str(tmp_path / "log"), mode="read") as log:
        assert log.marks("t", 0).durable >= 5


@pytest.mark.parametrize("word", [40, END_BYTES], ids=["torn", "whole"])
def test_a_fence_that_has_no_end_hides_nothing_from_a_reader_that_saw_less(
    tmp_path: Path, word: int
) -> None:
    path = tmp_path / "log"
    with file_log(str(path)) as log:
        log.create_topic("t")
        log.append("t", Event("made", -1))
    with file_log(str(path), mode="read") as reader:
        assert reader.marks("t", 0).high == 1
        fenced(path, end=None, word=word)

        assert [record.payload for record in reader.read("t", 0, 0)] == list(range(-1, 10))


@pytest.mark.parametrize("word", [40, END_BYTES], ids=["torn", "whole"])
def test_a_reader_that_stops_at_the_durable_mark_of_a_fence_without_an_end_is_noticed(
    tmp_path: Path, word: int
) -> None:
    bug = Bug("hidden", partition, "_sealed_end", "end if _ else _", "end._replace(next=5)")
    fenced(tmp_path / "log", end=None, word=word)

    with bug.planted():
        assert numbers_in(tmp_path / "log") != list(range(10))


def test_a_reader_that_goes_beyond_the_fence_of_a_torn_end_is_noticed(tmp_path: Path) -> None:
    bug = Bug("frames beyond a fence", PartitionFiles, "_without_end", "fence is None", "True")
    fenced(tmp_path / "log", end=8)

    with bug.planted():
        assert numbers_in(tmp_path / "log") != list(range(8))


def test_the_writer_after_a_torn_and_fenced_end_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    fenced(tmp_path / "log", end=None)

    with file_log(str(tmp_path / "log")) as log:
        assert log.append("t", Event("made", 10)).offset == 10
        assert all(report.is_sound for report in log.verify("t"))
    assert numbers_in(tmp_path / "log") == list(range(11))
