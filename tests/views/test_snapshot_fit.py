"""A snapshot that does not fit its log, its view or its own checksum is not used."""

from pathlib import Path

import pytest

import strandline as sl
from strandline.log import Log
from strandline.values import DivergedError, Position
from strandline.views.snapshot import unpacked
from tests.views.accounts import (
    PATIENCE_S,
    Accounts,
    State,
    SteeredLog,
    catch_up,
    fill,
    folded,
    opened,
    running,
    save_all,
    state_of,
)


class Other(Accounts):
    """Another view altogether."""


class Version2(Accounts):
    version = 2

    @property
    def name(self) -> str:
        return "Accounts"

    def apply(self, state: State, record: sl.Record) -> int:
        return super().apply(state, record) * 1


class Doubling(Version2):
    """Changed code: each movement counts twice."""

    def apply(self, state: State, record: sl.Record) -> int:
        for _ in range(2):
            super().apply(state, record)
        return 0


def test_changed_code_replays_what_older_code_has_saved(log: Log, path: Path) -> None:
    fill(log, 6)
    save_all(log, path)

    with running(log, 0, view=Doubling(), snapshot=path) as view:
        assert view.committed(0) == -1
        assert state_of(view) == {name: 2 * amount for name, amount in folded(log, 0).items()}
        view.close()
    with running(log, 0, view=Other(), snapshot=path) as view:
        assert view.committed(0) == -1
        assert state_of(view) == folded(log, 0)


def test_a_state_that_cannot_be_decoded_is_replayed(log: Log, path: Path) -> None:
    class Forgetful(Accounts):
        @property
        def name(self) -> str:
            return "Accounts"

        def decode(self, stored: bytes) -> State:
            raise KeyError(len(stored))

    fill(log, 6)
    save_all(log, path)

    with running(log, 0, view=Forgetful(), snapshot=path) as view:
        assert state_of(view) == folded(log, 0)
        assert isinstance(view.health().snapshot_fault, KeyError)


def test_a_snapshot_of_another_log_topic_or_partition_count_is_replayed_wb8(
    tmp_path: Path, path: Path
) -> None:
    """WB8: with a shorter log its offsets would pass for ready at once."""
    with sl.open(f"sqlite:{tmp_path / 'one.db'}") as one:
        one.create_topic("accounts", partitions=2)
        fill(one, 9)
        save_all(one, path)
        stored = path.read_bytes()

        one.drop_topic("accounts")
        one.create_topic("accounts", partitions=2)
        fill(one, 2)
        with running(one, 0, snapshot=path) as view:
            assert view.committed(0) == -1
            assert state_of(view) == folded(one, 0)

    with sl.open(f"sqlite:{tmp_path / 'other.db'}") as other:
        other.create_topic("accounts", partitions=3)
        fill(other, 2)
        path.write_bytes(stored)
        with running(other, 0, snapshot=path) as view:
            assert view.committed(0) == -1
            assert state_of(view) == folded(other, 0)


def test_a_log_restored_from_an_older_copy_is_replayed_wb8(tmp_path: Path, path: Path) -> None:
    """WB8: the same log id, but the log ends before what was committed."""
    file, copy = tmp_path / "events.db", tmp_path / "copy.db"
    with sl.open(f"sqlite:{file}") as log:
        log.create_topic("accounts", partitions=2)
        fill(log, 3)
        log.flush()
    copy.write_bytes(file.read_bytes())
    with sl.open(f"sqlite:{file}") as log:
        fill(log, 5)
        save_all(log, path)
    file.write_bytes(copy.read_bytes())

    with sl.open(f"sqlite:{file}") as log, running(log, 0, snapshot=path) as view:
        assert view.committed(0) == -1
        assert state_of(view) == folded(log, 0)
        assert view.applied(0) == 2
        view.save()
        assert view.committed(0) == 2


class LosingLog(SteeredLog):
    """A log that has lost and replaced records, as far as its positions tell."""

    diverged_at: int | None = None

    def resolve(self, position: Position) -> int:
        if self.diverged_at is not None and position.offset > self.diverged_at:
            raise DivergedError(self.diverged_at)
        return super().resolve(position)


def test_a_lost_epoch_means_replay(log: Log, path: Path) -> None:
    fill(log, 6)
    save_all(log, path)
    losing = LosingLog(log)
    losing.diverged_at = 4

    with running(losing.as_log(), 0, snapshot=path) as view:
        assert 0 in losing.starts
        assert state_of(view) == folded(log, 0)


def test_records_lost_under_a_running_view_mean_replay(log: Log, path: Path) -> None:
    losing = LosingLog(log)
    with running(losing.as_log(), 0, snapshot=path) as view:
        fill(log, 6)
        catch_up(view, log)
        view.save()
        fill(log, 2)
        catch_up(view, log)
        losing.starts.clear()

        losing.diverged_at = 5
        view.save()
        view.wait_ready(PATIENCE_S)

        assert 0 in losing.starts
        assert state_of(view) == folded(log, 0)


def test_a_snapshot_that_a_trim_has_left_behind_is_not_continued(log: Log, path: Path) -> None:
    fill(log, 3)
    save_all(log, path)
    fill(log, 6)
    log.trim("accounts", 0, 5)

    with running(log, 0, snapshot=path) as view:
        assert state_of(view) == folded(log, 0)
        assert view.health().partitions[0].first == 5


def test_a_snapshot_holds_more_than_a_trimmed_log_does(log: Log, path: Path) -> None:
    fill(log, 6)
    expected = folded(log, 0)
    save_all(log, path)
    log.trim("accounts", 0, 6)

    with running(log, 0, snapshot=path) as view:
        assert state_of(view) == expected
        assert view.health().partitions[0].first == 0


@pytest.mark.slow
def test_every_flipped_bit_of_a_snapshot_means_replay_v3(log: Log, path: Path) -> None:
    """V3: and so does every cut, and every byte too many."""
    fill(log, 6)
    save_all(log, path)
    whole = path.read_bytes()
    flipped = [
        whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]
        for at in range(len(whole))
        for bit in range(8)
    ]
    cut = [whole[:size] for size in range(len(whole))]
    damaged = [*flipped, *cut, whole + b"\0", b"", b"garbage" * 100]

    for content in damaged:
        with pytest.raises(sl.CorruptError):
            unpacked(content, "a file")
    for content in damaged[::97]:
        path.write_bytes(content)
        view = sl.LiveView(log, "accounts", Accounts(), snapshot=path)
        assert view.committed(0) == -1
        assert isinstance(view.health().snapshot_fault, sl.CorruptError)
        view.close()

    with running(log, 0, snapshot=path) as view:
        assert state_of(view) == folded(log, 0)
        view.save()
    assert path.read_bytes().startswith(whole[:8])


def test_a_planted_link_is_not_followed(log: Log, path: Path, tmp_path: Path) -> None:
    fill(log, 6)
    save_all(log, tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")

    with running(log, 0, snapshot=path) as view:
        assert view.committed(0) == -1
        assert state_of(view) == folded(log, 0)


def test_the_hash_of_keys_is_the_logs_own_wb10(log: Log) -> None:
    """WB10: the same in every process and release; the snapshot names it."""
    log.create_topic("wide", partitions=50)
    with sl.LiveView(log, "wide", Accounts()) as view:
        keys = [f"customer-{number}" for number in range(200)]
        placed = {key: view.partition_of(key) for key in keys}
        for key in keys[:20]:
            assert log.append("wide", opened(key)).partition == placed[key]
        assert view.partition_of("foobar") == 16, "as Kafka's producers place it"
        assert len(set(placed.values())) > 40


def test_a_damaged_snapshot_keeps_no_save_from_returning(log: Log, path: Path) -> None:
    fill(log, 3)
    save_all(log, path)
    path.write_bytes(b"garbage")
    with sl.LiveView(log, "accounts", Accounts(), snapshot=path) as view:
        view.reconcile([1])
        view.save()
        assert isinstance(view.health().snapshot_fault, sl.CorruptError)

        view.reconcile([0])
        view.wait_ready(PATIENCE_S)
        view.save()
        assert view.health().snapshot_fault is None
        assert view.committed(0) == 2
