"""Columns are aligned as Arrow's query engine expects."""

from pathlib import Path

import pytest

import strandline as sl

ALIGNED_BYTES = 8


@pytest.mark.parametrize("length", range(ALIGNED_BYTES))
def test_columns_are_aligned_wherever_their_frame_begins(tmp_path: Path, length: int) -> None:
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        log.create_topic("t")
        many = [sl.Event("many", n, key=str(n)) for n in range(1_000)]
        log.append_many("t", many)
        log.append("t", sl.Event("one", "." * length))
        log.append_many("t", many)

        batches = [*log.read_batches("t", 0, 0), *log.scan("t").to_batches()]

    buffers = [each for batch in batches for column in batch.columns for each in column.buffers()]
    assert sum(batch.num_rows for batch in batches) == 2 * 2_001
    assert not [each for each in buffers if each is not None and each.address % ALIGNED_BYTES]
