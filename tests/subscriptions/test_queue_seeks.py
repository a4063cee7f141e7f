"""A work queue is where the last seek has put it, or begins again, with members open or not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import strandline as sl
from strandline.log import cursor_moves, parts_of
from strandline.subscriptions import SharedConsumer, queue_store
from strandline.subscriptions.queue_state import Lease, QueueState, cut_to
from strandline.testing import FakeClock


@pytest.fixture(params=["memory", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sl.Log]:
    path = "" if request.param == "memory" else tmp_path / "log"
    clock = FakeClock()
    with sl.open(f"{request.param}:{path}", clock=clock, retention=False) as opened:
        opened.create_topic("jobs")
        opened.append_many("jobs", [sl.Event("job", {"n": n}) for n in range(10)])
        yield opened


def join(log: sl.Log, **options: Any) -> SharedConsumer:
    clock = parts_of(log).clock
    return log.consumer("jobs", "workers", shared=True, clock=clock, **options)


def took(member: SharedConsumer) -> list[tuple[int, int]]:
    return [(each.record.offset, each.count) for each in member.fetch(timeout_s=0)]


def from_(offset: int) -> list[tuple[int, int]]:
    return [(each, 1) for each in range(offset, 10)]


def acked_and_closed(log: sl.Log) -> None:
    with join(log) as member:
        member.ack(member.fetch(timeout_s=0))


def keys(log: sl.Log) -> dict[str, bytes]:
    store = parts_of(log).store
    return dict(store.keys(store.find_topic(None, "jobs")))


def put(log: sl.Log, key: str, value: bytes) -> None:
    store = parts_of(log).store
    topic = store.find_topic(None, "jobs")
    assert store.put_key(topic, key, value, store.get_key(topic, key))


@pytest.mark.parametrize("offset", [0, 5, 9])
def test_a_closed_queue_begins_where_it_was_put(log: sl.Log, offset: int) -> None:
    acked_and_closed(log)

    log.seek("jobs", "workers", 0, offset)

    with join(log) as member:
        assert log.cursor("jobs", "workers", 0) == offset
        assert took(member) == from_(offset)
        assert member.lag() == {0: 10 - offset}
    assert log.cursor("jobs", "workers", 0) == offset


@pytest.mark.parametrize("offset", [0, 5, 9])
def test_open_members_begin_at_once_where_the_queue_was_put(log: sl.Log, offset: int) -> None:
    with join(log) as member, join(log) as other:
        member.ack(member.fetch(timeout_s=0))

        log.seek("jobs", "workers", 0, offset)

        assert took(other) == from_(offset)
        assert took(member) == []


def test_a_seek_to_where_the_cursor_is_frees_what_is_settled_beyond(log: sl.Log) -> None:
    with join(log) as member:
        held = member.fetch(timeout_s=0)
        member.ack(held[2:])

        log.seek("jobs", "workers", 0, 0)

        assert took(member) == from_(0)


def test_a_seek_during_an_ack_holds(log: sl.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def sought_before(*place: Any, **terms: Any) -> object:
        log.seek("jobs", "workers", 0, 4)
        return cursor_moves.ack_each(*place, **terms)

    with join(log) as member:
        held = member.fetch(timeout_s=0)
        with monkeypatch.context() as patched:
            patched.setattr(queue_store, "ack_each", sought_before)
            member.ack(held)
        assert log.cursor("jobs", "workers", 0) == 4
        assert took(member) == from_(4)


def test_what_was_delivered_before_a_seek_settles_nothing_after(log: sl.Log) -> None:
    with join(log) as member:
        held = member.fetch(timeout_s=0)
        log.seek("jobs", "workers", 0, 2)

        with pytest.raises(sl.ConflictError):
            member.ack(held)

        assert log.cursor("jobs", "workers", 0) == 2
        assert took(member) == from_(2)


def test_a_member_that_moves_the_queue_holds_nothing_of_it(log: sl.Log) -> None:
    with join(log) as member:
        held = member.fetch(timeout_s=0)

        member.seek(0, 2)

        with pytest.raises(sl.InvalidError, match="not held by this consumer"):
            member.ack(held)
        assert repr(member) == "SharedConsumer('workers', 'jobs', held=0)"


def test_a_queue_that_was_deleted_begins_again_without_its_counts(log: sl.Log) -> None:
    with join(log) as member:
        first, *rest = member.fetch(timeout_s=0)
        member.nack(first)
        member.ack(rest)

    assert log.delete_consumer("jobs", "workers")

    assert not [key for key in keys(log) if "workers" in key]
    assert took(join(log)) == from_(0)


def test_members_of_a_deleted_queue_store_nothing_more(log: sl.Log) -> None:
    member = join(log)
    held = member.fetch(timeout_s=0)
    log.delete_consumer("jobs", "workers")

    with pytest.raises(sl.InvalidError, match="was deleted while it was being read"):
        member.ack(held)
    member.close()

    assert not [key for key in keys(log) if "queues/" in key or "cursors/" in key]


def test_a_state_that_a_killed_delete_has_left_counts_for_nothing(log: sl.Log) -> None:
    acked_and_closed(log)
    ((key, state),) = [each for each in keys(log).items() if each[0].startswith("queues/")]
    log.delete_consumer("jobs", "workers")
    put(log, key, state)

    assert took(join(log)) == from_(0)


def without_seek_ids(log: sl.Log) -> None:
    """Have the cursor and the state as an earlier version stores them."""
    for key, raw in keys(log).items():
        value = msgspec.json.decode(raw)
        for each in (value, *value.get("cursors", ())):
            each.pop("seek_id", None)
        put(log, key, msgspec.json.encode(value))


def test_a_queue_of_an_earlier_version_continues(log: sl.Log) -> None:
    with join(log) as member:
        held = member.fetch(timeout_s=0)
        member.ack([*held[:2], *held[5:]])
    without_seek_ids(log)

    with join(log) as member:
        again = member.fetch(timeout_s=0)
        assert [(each.record.offset, each.count) for each in again] == [(2, 2), (3, 2), (4, 2)]
        member.ack(again)
    assert log.cursor("jobs", "workers", 0) == 10
    without_seek_ids(log)
    log.seek("jobs", "workers", 0, 9)
    assert took(join(log)) == from_(9)


def test_a_queue_keeps_what_is_left_of_a_partition_that_has_lost_records() -> None:
    kept, lost = Lease(8, 1, 0, "member"), Lease(13, 1, 0, "member")
    state = QueueState(7, 14, ((9, 12),), (kept, lost), cursor=7)

    assert cut_to(state, 14) is state
    assert cut_to(state, 10) == QueueState(7, 10, ((9, 10),), (kept,), cursor=7)
    assert cut_to(state, 5) == QueueState(5, 5, cursor=5)


def test_a_copy_is_where_the_queue_was_put(tmp_path: Path) -> None:
    source, first, second = (f"sqlite:{tmp_path / name}" for name in ("log", "first", "second"))
    with sl.open(source) as log:
        log.create_topic("jobs")
        log.append_many("jobs", [sl.Event("job", {"n": n}) for n in range(10)])
        with join(log) as member:
            held = member.fetch(timeout_s=0)
            member.ack([*held[:2], *held[5:]])
        sl.copy(source, first)
        log.seek("jobs", "workers", 0, 1)
        sl.copy(source, second)

    with sl.open(first) as copied:
        assert took(join(copied)) == [(2, 2), (3, 2), (4, 2)]
    with sl.open(second) as copied:
        assert took(join(copied)) == from_(1)


def test_a_group_that_was_deleted_or_put_elsewhere_counts_again() -> None:
    with sl.open("memory:", clock=FakeClock(), retention=False) as log:
        log.create_topic("jobs")
        log.append("jobs", sl.Event("job", {}))

        def count() -> int:
            with log.consumer("jobs", "group") as consumer:
                found = consumer.next(timeout_s=0)
                assert found is not None
                return found.count

        assert [count(), count(), count()] == [1, 2, 3]
        log.delete_consumer("jobs", "group")
        assert [count(), count()] == [1, 2]
        log.seek("jobs", "group", 0, 0)
        assert [count(), count()] == [1, 2]
