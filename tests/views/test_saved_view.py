"""What a view has saved, looked at from outside."""

from pathlib import Path

import pytest

import strandline as sl
from strandline.log import Log
from strandline.values import CorruptError, InvalidError, UnavailableError
from strandline.views import load_snapshot
from tests.logs import memory_log
from tests.views.accounts import Accounts


def saved(log: Log, path: Path) -> None:
    log.create_topic("accounts", partitions=2)
    for number in (5, 7):
        log.append("accounts", sl.Event("moved", number, key="ann"), partition=1)
    with sl.LiveView(log, "accounts", Accounts(), snapshot=path) as view:
        view.reconcile([1])
        view.wait_ready(20)


def test_a_snapshot_shows_state_offsets_and_log(tmp_path: Path) -> None:
    """TB6: the file loads, with what was committed and the state."""
    path = tmp_path / "snapshot"
    with memory_log() as log:
        saved(log, path)

        found = load_snapshot(path, Accounts())

        assert (found.log_id, found.topic_id) == (log.id, log.topic("accounts").id)
        assert (found.topic_partitions, list(found.partitions)) == (2, [1])
        part = found.partitions[1]
        assert (part.applied, part.first, dict(part.quarantined)) == (1, 0, {})
        assert log.resolve(part.position) == 2
        with sl.LiveView(log, "accounts", Accounts(), snapshot=path) as view:
            view.reconcile([1])
            view.wait_ready(20)
            assert found.view.encode(found.state(1)) == view.read(1, Accounts().encode)
        with pytest.raises(InvalidError, match="not in the snapshot"):
            found.state(0)


def test_a_snapshot_that_cannot_be_looked_at_says_why(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    with pytest.raises(InvalidError, match="no snapshot"):
        load_snapshot(path, Accounts())
    with memory_log() as log:
        saved(log, path)

    class Other(Accounts):
        """Another view."""

    with pytest.raises(InvalidError, match="another view"):
        load_snapshot(path, Other())
    with pytest.raises(UnavailableError):
        load_snapshot(tmp_path, Accounts())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptError):
        load_snapshot(path, Accounts())


def test_a_state_that_cannot_be_decoded_is_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "snapshot"
    with memory_log() as log:
        saved(log, path)
    found = load_snapshot(path, Accounts())

    def decode(_: Accounts, stored: bytes) -> dict[str, int]:
        raise ValueError(stored)

    monkeypatch.setattr(Accounts, "decode", decode)
    with pytest.raises(CorruptError, match="cannot decode"):
        found.state(1)
