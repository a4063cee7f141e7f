"""A run with a catalogue of the caller's, which continues after it."""

from pathlib import Path

import pytest

import strandline as sl
from strandline.tiering import SegmentCatalogue, compact, tier
from strandline.tiering.segment import partition_of
from strandline.values import InvalidError
from tests.tiering.tiered import BACKENDS, filled, opened


@pytest.mark.parametrize("backend", BACKENDS)
def test_runs_share_a_catalogue_that_is_the_callers(tmp_path: Path, backend: str) -> None:
    with opened(backend, tmp_path) as log, SegmentCatalogue(log) as catalogue:
        filled(log)
        place = partition_of(log.topic("t"), 0)

        for _ in range(2):
            log.append("t", sl.Event("k", {"n": 0}))
            tier(
                *(log, "t", log.objects),
                catalogue=catalogue,
                include_open=True,
                local_bytes=0,
                piece_records=7,
            )
        merged = compact(log, "t", log.objects, catalogue=catalogue, grace_s=0)

        assert merged.merged > 0
        assert [each.end for each in catalogue.current(place)] == [22]
        assert log.evict("t", 0, 0) == 22
        assert len(list(log.read("t", 0, 0))) == 22


def test_a_catalogue_of_another_log_is_refused_before_anything_is_copied(tmp_path: Path) -> None:
    with opened("file", tmp_path / "a") as log, opened("file", tmp_path / "b") as other:
        filled(log)
        with SegmentCatalogue(other) as catalogue:
            for run in (tier, compact):
                with pytest.raises(InvalidError, match="another log"):
                    run(log, "t", log.objects, catalogue=catalogue)

        assert not log.objects.list("")
