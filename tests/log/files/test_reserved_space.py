"""Zeros ahead of a segment's end: few for a partition that gets little."""

from pathlib import Path

import pyarrow as pa
import pytest

import strandline as sl
from strandline.stores.files import compiled_lane
from strandline.stores.files.reserved_space import step_bytes
from tests.logs import file_log

#: One list is a frame of about 21 KiB.
EVENTS = [sl.Event("reading", {"n": n, "x": "y" * 960}) for n in range(20)]
FRAME_BYTES_MAX = 22 << 10


def lengths(path: Path, lists: int) -> list[int]:
    """Return how long the segment is after each of so many lists."""
    found = []
    with file_log(str(path)) as log:
        log.create_topic("readings")
        for _ in range(lists):
            log.append_many("readings", EVENTS)
            (segment,) = path.glob("topics/*/0/segments/*")
            found.append(segment.stat().st_size)
    return found


@pytest.mark.parametrize(
    ("end", "step"),
    [(0, 64), (100, 64), (128, 64), (512, 256), (2048, 1024), (9999, 1024)],
)
def test_a_step_is_half_of_what_is_there(end: int, step: int) -> None:
    assert step_bytes(1 << 20, end << 10) == step << 10


def test_no_step_is_longer_than_allowed() -> None:
    assert step_bytes(16 << 10, 9999 << 10) == 16 << 10


def test_a_first_list_has_few_zeros_behind_it(tmp_path: Path) -> None:
    (length,) = lengths(tmp_path / "log", 1)

    assert length <= FRAME_BYTES_MAX + (65 << 10)


def test_large_batches_have_blocks_allocated_ahead_of_them(tmp_path: Path) -> None:
    rows = pa.record_batch({"n": pa.array(range(20_000), pa.int64())})
    found = []
    with file_log(str(tmp_path / "log")) as log:
        log.create_topic("rows", value_kind=sl.ValueKind.BATCH)
        for _ in range(40):
            log.append("rows", rows)
            (segment,) = (tmp_path / "log").glob("topics/*/0/segments/*")
            found.append(segment.stat().st_size)
        # A small one has zeros, and what lies behind them was allocated before.
        log.append("rows", rows.slice(0, 1))
        records = [record.value for record in log.read("rows", 0, 0)]

    assert len(set(found)) < len(found) / 2
    assert records == [*[rows] * 40, rows.slice(0, 1)]


def test_the_core_has_as_many_zeros_ahead_as_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_core = lengths(tmp_path / "core", 120)
    monkeypatch.setattr(compiled_lane, "IS_COMPILED", False)
    by_python = lengths(tmp_path / "python", 120)

    assert by_core == by_python
    assert len(set(by_core)) > 5
