"""What a backup of a tiered log still has once the log has deleted objects."""

from pathlib import Path

import pytest

import strandline as sl
from strandline.tiering import tier

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_an_erasure_costs_an_older_backup_whole_objects_and_nothing_else(
    tmp_path: Path, kind: str
) -> None:
    with sl.open(f"{kind}:{tmp_path / 'log'}") as log:
        log.create_topic("orders")
        for start in (0, 10, 20):
            if start:
                tier(log, "orders", f"file://{tmp_path}/cold", include_open=True, local_bytes=0)
            keys = [f"c-{start}", "other"] * 5
            log.append_many("orders", [sl.Event("placed", each, key=each) for each in keys])
        sl.backup(tmp_path / "older", url=f"{kind}:{tmp_path / 'log'}")
        for key in ("c-0", "c-20"):
            assert log.erase("orders", key=key).erased == 5
        sl.backup(tmp_path / "newer", url=f"{kind}:{tmp_path / 'log'}")

    with sl.open(f"{kind}:{tmp_path / 'older'}", mode="read") as older:
        with pytest.raises(sl.CorruptError, match="object is missing"):
            list(older.read("orders", 0, 1, 2))
        assert [each.key for each in older.read("orders", 0, 10)] == (
            ["c-10", "other"] * 5 + ["c-20", "other"] * 5
        )
    with sl.open(f"{kind}:{tmp_path / 'newer'}", mode="read") as newer:
        erased = [record.offset for record in newer.read("orders", 0, 0) if sl.is_erased(record)]
        assert erased == [0, 2, 4, 6, 8, 20, 22, 24, 26, 28]
