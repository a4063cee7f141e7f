"""The collector of a worker that Spark uses for many tasks leaves its modules alone."""

import gc

import pytest

from strandline.spark.unhurried import freeze_modules


def test_a_worker_that_is_used_again_freezes_its_modules_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    try:
        freeze_modules()
        frozen = gc.get_freeze_count()
        later = [[each] for each in range(1000)]
        freeze_modules()

        assert frozen > len(later)
        assert gc.get_freeze_count() <= frozen
    finally:
        gc.unfreeze()


def test_any_other_process_freezes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)

    freeze_modules()

    assert gc.get_freeze_count() == 0
