"""Cursors that are missing or damaged are an error, and never a new beginning."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

import strandline as sl
from strandline.stores.files.copying import copy_file_log
from strandline.stores.files.topics import FileTopics
from strandline.values import Topic
from tests.subscriptions.doubles import fill


@pytest.fixture
def log(tmp_path: Path) -> sl.Log:
    log = sl.open(f"file:{tmp_path / 'events'}")
    log.create_topic("orders", partitions=2)
    fill(log, "orders", 0, 3)
    with log.consumer("orders", "worker") as worker:
        delivery = worker.next(0.0)
        assert delivery is not None
        worker.ack(delivery.record)
    return log


def cursors_of(path: Path, topic: Topic) -> Path:
    """Return the file with the cursors of the one consumer of a topic."""
    return cursor_file(path / "events" / "topics" / str(topic.id) / "keys")


def cursor_file(keys: Path) -> Path:
    """Return the one file with cursors: the consumer's group has another."""
    (found,) = (each for each in keys.glob("*.key") if b'"cursors/' in each.read_bytes())
    return found


def swap(file: Path) -> None:
    """Put another consumer's cursors in the place of these."""
    log = sl.open(f"file:{file.parents[3]}", mode="consume")
    log.ack("orders", "another", 0, 1)
    log.close()
    found = {each for each in file.parent.glob("*.key") if b'"cursors/' in each.read_bytes()}
    (other,) = found - {file}
    other.replace(file)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "truncated": lambda file: file.write_bytes(file.read_bytes()[:-5]),
    "empty": lambda file: file.write_bytes(b""),
    "zeroed": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "another's": swap,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_cursors_are_an_error_where_they_are_needed(
    log: sl.Log, tmp_path: Path, damage: str
) -> None:
    file = cursors_of(tmp_path, log.topic("orders"))
    log.close()
    DAMAGE[damage](file)

    with sl.open(f"file:{tmp_path / 'events'}") as again:
        for call in (
            lambda: again.consumer("orders", "worker"),
            lambda: again.cursor("orders", "worker", 0),
            lambda: again.ack("orders", "worker", 0, 2),
            lambda: again.consumers("orders"),
            lambda: again.trim("orders", 0, 3),
        ):
            with pytest.raises(sl.CorruptError):
                call()
        (finding,) = again.verify("orders")[0].findings[:1]
        assert "cursors" in finding.reason
        assert [record.offset for record in again.read("orders", 0, 0)] == [0, 1, 2]


def test_a_consumer_whose_cursors_are_missing_can_be_deleted(log: sl.Log, tmp_path: Path) -> None:
    cursors_of(tmp_path, log.topic("orders")).unlink()

    assert log.delete_consumer("orders", "worker")

    assert log.verify("orders")[0].is_sound
    with log.consumer("orders", "worker") as again:
        first = again.next(0.0)
    assert first is not None
    assert first.record.offset == 0


def test_a_topic_that_lost_the_directory_of_its_cursors_is_damaged(
    log: sl.Log, tmp_path: Path
) -> None:
    directory = cursors_of(tmp_path, log.topic("orders")).parent
    for each in directory.iterdir():
        each.unlink()
    directory.rmdir()

    with pytest.raises(sl.CorruptError):
        log.consumers("orders")
    with pytest.raises(sl.CorruptError):
        log.cursor("orders", "worker", 0)


def test_a_topic_without_consumers_needs_no_directory_for_them(tmp_path: Path) -> None:
    with sl.open(f"file:{tmp_path / 'events'}") as log:
        topic = log.create_topic("orders")
        (tmp_path / "events" / "topics" / str(topic.id) / "keys").rmdir()

        assert log.consumers("orders") == []
        assert log.cursor("orders", "worker", 0) is None
        with log.consumer("orders", "worker"):
            assert log.cursor("orders", "worker", 0) == 0
        assert not log.delete_consumer("orders", "another")
        assert log.verify("orders")[0].is_sound


def test_the_list_outlives_a_change_of_retention_and_a_copy(log: sl.Log, tmp_path: Path) -> None:
    log.change_retention("orders", retention_age_s=None, retention_bytes=10**9)
    copy_file_log(str(tmp_path / "events"), str(tmp_path / "copy"))
    topic = log.topic("orders")
    log.close()

    cursor_file(tmp_path / "copy" / "topics" / str(topic.id) / "keys").unlink()

    with sl.open(f"file:{tmp_path / 'copy'}") as copy, pytest.raises(sl.CorruptError):
        copy.consumer("orders", "worker")


def test_a_consumer_registered_while_the_log_is_copied_is_not_missed_in_the_copy(
    log: sl.Log, tmp_path: Path
) -> None:
    fresh = FileTopics.fresh
    looks = []

    def registering(self: FileTopics, entry: object) -> object:
        looks.append(entry)
        if len(looks) == 2:
            with mock.patch.object(FileTopics, "fresh", fresh):
                log.consumer("orders", "late").close()
        return fresh(self, entry)  # type: ignore[arg-type]

    with mock.patch.object(FileTopics, "fresh", registering):
        copy_file_log(str(tmp_path / "events"), str(tmp_path / "copy"))

    with sl.open(f"file:{tmp_path / 'copy'}") as copy:
        assert {each.consumer for each in copy.consumers("orders")} == {"worker"}
        assert all(report.is_sound for report in copy.verify("orders"))
    assert {each.consumer for each in log.consumers("orders")} == {"late", "worker"}
    log.close()


def test_a_crash_before_a_consumer_is_listed_is_made_up_for(log: sl.Log, tmp_path: Path) -> None:
    with (
        mock.patch.object(FileTopics, "list_key", side_effect=OSError("killed")),
        contextlib.suppress(sl.UnavailableError),
    ):
        log.register("orders", "unlisted", {0: 1})

    assert log.cursor("orders", "unlisted", 0) == 1
    with log.consumer("orders", "unlisted"):
        pass
    for file in (tmp_path / "events" / "topics").glob("*/keys/*.key"):
        file.unlink()
    with pytest.raises(sl.CorruptError):
        log.cursor("orders", "unlisted", 0)


def test_a_log_that_lists_no_consumers_is_found_out(tmp_path: Path) -> None:
    with mock.patch.object(FileTopics, "list_key", return_value=False):
        log = sl.open(f"file:{tmp_path / 'events'}")
        log.create_topic("orders")
        log.ack("orders", "worker", 0, 0)
        cursors_of(tmp_path, log.topic("orders")).unlink()

    assert log.cursor("orders", "worker", 0) is None
    log.close()
