"""Damage to a SQLite log's file: the right records, or a typed error, never wrong ones."""

import shutil
from pathlib import Path

import pytest

from strandline.clock import SystemClock
from tests.log.sqlite_bits import check_reads, event, flip_some, write
from tests.logs import sqlite_log


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "events.sqlite"
    write(path)
    return path


def test_the_undamaged_file_reads_well(original: Path) -> None:
    assert check_reads(original)


@pytest.mark.parametrize("count", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_a_flipped_bit_gives_the_right_records_or_a_typed_error(
    original: Path, tmp_path: Path, count: int
) -> None:
    """Many more are in torture."""
    seed = int.from_bytes(SystemClock().random_bytes(4), "big")

    assert flip_some(original, tmp_path, seed, count)


@pytest.mark.slow
def test_a_zeroed_page_gives_the_right_records_or_a_typed_error(
    original: Path, tmp_path: Path
) -> None:
    content = original.read_bytes()
    for start in range(0, len(content), 4096):
        path = tmp_path / f"{start}.sqlite"
        path.write_bytes(content[:start] + bytes(4096) + content[start + 4096 :])

        check_reads(path)


def test_a_cut_file_gives_the_right_records_or_a_typed_error(
    original: Path, tmp_path: Path
) -> None:
    path = tmp_path / "cut.sqlite"
    shutil.copy(original, path)
    with path.open("r+b") as file:
        file.truncate(original.stat().st_size // 2)

    assert not check_reads(path)


@pytest.mark.slow
def test_a_torn_write_costs_its_own_record_and_no_other_we3(tmp_path: Path) -> None:
    """WE3: what is cut off in the middle is not there; what follows is not glued to it."""
    written = tmp_path / "written.sqlite"
    sizes = []
    with sqlite_log(str(written)) as log:
        log.create_topic("orders")
        log.flush()
        for number in range(6):
            log.append("orders", event(number))
            sizes.append(wal(written).stat().st_size)
        database, logged = written.read_bytes(), wal(written).read_bytes()

    for size in (*range(sizes[0], len(logged), 1013), len(logged) - 1):
        torn = tmp_path / f"{size}.sqlite"
        torn.write_bytes(database)
        wal(torn).write_bytes(logged[:size])
        whole = sum(end <= size for end in sizes)

        with sqlite_log(str(torn)) as log:
            found = [record.value for record in log.read("orders", 0, 0)]
            receipt = log.append("orders", event(100))
        with sqlite_log(str(torn)) as log:
            later = [record.value for record in log.read("orders", 0, 0)]

        assert found == [event(number) for number in range(whole)], size
        assert receipt.offset == whole
        assert later == [*found, event(100)]


def wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")
