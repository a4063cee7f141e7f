"""A work queue: members of one name share records, even if some of them are killed."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.locks import Signal
from strandline.log import parts_of
from strandline.subscriptions import Delivery, SharedConsumer
from strandline.subscriptions.orphaned_leases import OrphanedLeases, member_id
from strandline.subscriptions.pages import POLL_S
from strandline.testing import FakeClock
from strandline.triggers import dead_letters, redrive
from tests.logs import SCHEMES

Join = Callable[..., SharedConsumer]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=SCHEMES)
def log(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> Iterator[sl.Log]:
    path = "" if request.param == "memory" else tmp_path / "log"
    with sl.open(f"{request.param}:{path}", clock=clock, retention=False) as opened:
        opened.create_topic("jobs")
        yield opened


@pytest.fixture
def join(log: sl.Log, clock: FakeClock) -> Join:
    def joined(name: str = "workers", **options: Any) -> SharedConsumer:
        return log.consumer("jobs", name, shared=True, clock=clock, **options)

    return joined


def fill(log: sl.Log, count: int, **terms: Any) -> None:
    log.append_many("jobs", [sl.Event("job", {"n": n}) for n in range(count)], **terms)


def numbers(deliveries: list[Delivery]) -> list[int]:
    return [each.record.payload["n"] for each in deliveries]


def took(member: SharedConsumer, most: int = 1) -> list[Delivery]:
    return member.fetch(most, timeout_s=0)


def test_each_record_goes_to_one_member(log: sl.Log, join: Join) -> None:
    fill(log, 10)
    one, other = join(), join()

    found = [*took(one, 3), *took(other, 4), *took(one), *took(other, 9)]

    assert numbers(found) == [*range(10)]
    assert took(one) == took(other) == []


def test_acks_come_in_any_order_and_the_cursor_waits_for_the_first(log: sl.Log, join: Join) -> None:
    fill(log, 6)
    member = join()
    first, *rest = took(member, 6)

    member.ack(rest[4])
    member.ack(rest[:2])
    assert log.cursor("jobs", "workers", 0) == 0
    assert member.lag() == {0: 3}
    member.ack(first)
    assert log.cursor("jobs", "workers", 0) == 3
    member.ack(first)
    member.ack(rest)

    assert log.cursor("jobs", "workers", 0) == 6
    assert member.lag() == {0: 0}


def test_acknowledged_gaps_outlive_the_members(log: sl.Log, join: Join) -> None:
    fill(log, 100)
    with join() as member:
        held = took(member, 100)
        member.ack([each for each in held if each.record.offset % 2])

    stored = [raw for key, raw in _keys(log).items() if key.startswith("queues/")]
    again = took(join(), 100)

    assert numbers(again) == [*range(0, 100, 2)]
    assert all(each.count == 2 for each in again)
    assert len(stored[0]) < 100 * 30


def _keys(log: sl.Log) -> dict[str, bytes]:
    store = parts_of(log).store
    return dict(store.keys(store.find_topic(None, "jobs")))


def test_a_run_of_acks_is_kept_as_one_gap(log: sl.Log, join: Join) -> None:
    fill(log, 500)
    member = join()
    held = took(member, 500)

    member.ack(held[1:])

    (raw,) = [raw for key, raw in _keys(log).items() if key.startswith("queues/")]
    assert len(raw) < 300
    assert log.cursor("jobs", "workers", 0) == 0


def test_a_lease_that_runs_out_frees_the_record_and_its_holder_is_refused(
    log: sl.Log, join: Join, clock: FakeClock
) -> None:
    fill(log, 2)
    slow, quick = join(visibility_s=10), join(visibility_s=10)
    (late,) = took(slow)
    assert numbers(took(quick)) == [1]

    clock.advance(10)
    (again,) = [each for each in took(quick, 2) if each.record.offset == 0]

    assert (again.record.offset, again.count) == (0, 2)
    for refused in (slow.ack, slow.nack, slow.extend, slow.dead_letter):
        # Each refused call drops it.
        slow._held.add(late.record, late.count)  # noqa: SLF001
        with pytest.raises(sl.ConflictError, match="another member has it, or had"):
            refused(late)
    assert log.cursor("jobs", "workers", 0) == 0
    assert list(dead_letters(log, "jobs")) == []
    quick.ack(again)
    assert log.cursor("jobs", "workers", 0) == 1


def test_what_a_member_has_left_is_acked_unless_another_has_it(
    log: sl.Log, join: Join, clock: FakeClock
) -> None:
    fill(log, 2)
    gone, other = join(visibility_s=10), join()
    first, second = took(gone, 2)
    left = OrphanedLeases(log, log.topic("jobs"), "workers", None, member_id(gone))

    for _ in range(2):
        left.ack(first.record, first.count)
    clock.advance(11)
    assert numbers(took(other, 2)) == [1]

    with pytest.raises(sl.ConflictError):
        left.ack(second.record, second.count)


def test_a_lease_is_extended_for_long_work(log: sl.Log, join: Join, clock: FakeClock) -> None:
    fill(log, 1)
    one, other = join(visibility_s=10), join()
    (held,) = took(one)

    for _ in range(5):
        clock.advance(8)
        one.extend(held)
        assert took(other) == []
    one.extend(held, 100)
    clock.advance(99)

    assert took(other) == []
    one.ack(held)
    assert log.cursor("jobs", "workers", 0) == 1


def test_a_nacked_record_comes_after_its_delay_also_to_a_later_process(
    log: sl.Log, join: Join, clock: FakeClock
) -> None:
    fill(log, 2)
    with join() as member:
        first, second = took(member, 2)
        member.nack(first, delay_s=60)
        member.ack(second)

    later = join()
    clock.advance(59)
    assert took(later) == []
    clock.advance(1)
    (again,) = took(later)

    assert (again.record.offset, again.count) == (0, 2)


def test_a_record_that_fails_too_often_is_dead_lettered(log: sl.Log, join: Join) -> None:
    fill(log, 2)
    member = join(deliveries_max=3)
    outcomes = []
    for _ in range(3):
        poison, *rest = took(member, 2)
        outcomes.append(member.nack(poison, reason="broken"))
        member.ack(rest)

    (letter,) = dead_letters(log, "jobs")
    assert outcomes == [False, False, True]
    assert (letter.reason, letter.deliveries, letter.consumer) == ("broken", 3, "workers")
    assert log.cursor("jobs", "workers", 0) == 2


def test_a_record_whose_members_die_is_dead_lettered(
    log: sl.Log, join: Join, clock: FakeClock
) -> None:
    fill(log, 1)
    for count in (1, 2):
        # A member that has died neither settles nor gives back.
        (held,) = took(join(deliveries_max=2, visibility_s=5))
        assert held.count == count
        clock.advance(5)

    assert took(join(deliveries_max=2)) == []
    (letter,) = dead_letters(log, "jobs")
    assert letter.deliveries == 2
    assert log.cursor("jobs", "workers", 0) == 1


def test_a_dead_letter_is_redriven_to_the_queue(log: sl.Log, join: Join, clock: FakeClock) -> None:
    fill(log, 1)
    member = join(deliveries_max=2)
    member.dead_letter(took(member)[0], reason="first")
    redrive(log, "jobs")
    clock.advance(POLL_S)

    (again,) = took(member)
    assert (again.record.payload, again.count) == ({"n": 0}, 1)
    assert not member.nack(again)
    (third,) = took(member)
    assert member.nack(third, reason="second")
    letters = list(dead_letters(log, "jobs"))
    assert [(each.reason, each.is_redriven) for each in letters] == [
        ("first", True),
        ("second", False),
    ]
    redrive(log, "jobs")
    (last,) = took(member)
    member.extend(last)
    member.ack(last)
    assert took(member) == []


def test_order_by_key_holds_up_a_key_and_no_other(
    log: sl.Log, join: Join, clock: FakeClock
) -> None:
    fill(log, 6, keys=["a", "a", "b", None, "a", "b"])
    one, other = (join(order="key", visibility_s=300) for _ in range(2))

    first = took(one, 9)
    assert numbers(first) == [0, 2, 3]
    assert took(other, 9) == []
    one.ack(first[1])
    assert numbers(took(other, 9)) == [5]
    one.nack(first[0], delay_s=30)
    assert took(other, 9) == [], "a nacked record holds up its key"
    clock.advance(30)
    (again,) = took(other, 9)
    assert again.record.payload["n"] == 0
    other.ack(again)
    assert numbers(took(one, 9)) == [1]


def test_a_closed_member_gives_back_at_once(log: sl.Log, join: Join) -> None:
    fill(log, 3)
    one, other = join(), join()
    held = took(one, 2)

    one.close()
    one.close()

    assert numbers(took(other, 9)) == [0, 1, 2]
    with pytest.raises(sl.ClosedError):
        one.ack(held[0])
    with pytest.raises(sl.ClosedError):
        one.next(timeout_s=0)


def test_a_queue_begins_at_its_start_and_reads_added_partitions(
    log: sl.Log, join: Join, clock: FakeClock
) -> None:
    fill(log, 3)
    member = join(start="latest")
    assert took(member) == []
    log.add_partitions("jobs", 3)
    log.append("jobs", sl.Event("job", {"n": 7}), partition=2)
    clock.advance(POLL_S)

    (held,) = took(member)

    assert (held.record.partition, held.record.offset) == (2, 0)
    assert [each.partition for each in log.consumers("jobs")] == [0, 1, 2]


def test_a_queue_follows_a_seek_and_a_new_consumer_of_its_name(
    log: sl.Log, join: Join, clock: FakeClock
) -> None:
    fill(log, 4)
    member = join()
    member.ack(took(member, 4))
    log.seek("jobs", "workers", 0, 1)
    clock.advance(POLL_S)
    assert numbers(took(member, 9)) == [1, 2, 3]

    member.seek(0, 3)
    assert numbers(took(member, 9)) == [3]
    log.ack("jobs", "workers", 0, 4)
    clock.advance(POLL_S)
    assert took(member) == []
    member.close()
    log.delete_consumer("jobs", "workers")
    assert numbers(took(join(), 9)) == [0, 1, 2, 3]


def test_a_forced_trim_and_retention_respect_the_queue(
    log: sl.Log, join: Join, clock: FakeClock
) -> None:
    fill(log, 6)
    member = join()
    held = took(member, 2)
    member.ack(held[1])

    assert log.trim("jobs", 0, 5).low == 0, "the record that is not acked is kept"
    log.trim("jobs", 0, 4, force=True)
    clock.advance(60)

    assert numbers(took(member, 9)) == [4, 5]


def test_wrong_calls_are_refused(log: sl.Log, join: Join) -> None:
    fill(log, 2)
    member = join()
    (record, *_) = log.read("jobs", 0, 0)

    for wrong in ({"visibility_s": 0}, {"order": "time"}, {"deliveries_max": 0}, {"start": "now"}):
        with pytest.raises(sl.InvalidError):
            join("other", **wrong)
    with pytest.raises(sl.InvalidError, match="not held by this consumer"):
        member.ack(record)
    with pytest.raises(sl.InvalidError, match="visibility_s"):
        member.extend(took(member)[0], 0)
    with pytest.raises(sl.InvalidError):
        log.consumer("jobs", "workers", shared="yes")  # type: ignore[call-overload]
    with log.consumer("jobs", "alone"), pytest.raises(sl.UnavailableError):
        join("alone")


@pytest.mark.parametrize(
    "option",
    [
        "partitions",
        "group",
        "on_assignment",
        "lease_s",
        "commit_every",
        "commit_every_s",
        "read_ahead",
    ],
)
def test_an_option_of_groups_is_refused_with_what_to_do(option: str) -> None:
    with sl.open("memory:") as log:
        log.create_topic("jobs")
        given: dict[str, Any] = {option: 1}

        with pytest.raises(sl.InvalidError, match=f"a work queue takes no {option}: "):
            log.consumer("jobs", "workers", shared=True, **given)
        assert log.consumers("jobs") == []


@pytest.mark.parametrize("option", ["visibility_s", "order"])
def test_an_option_of_queues_needs_a_queue(option: str) -> None:
    with sl.open("memory:") as log:
        log.create_topic("jobs")
        given: dict[str, Any] = {option: 1}

        with pytest.raises(sl.InvalidError, match=f"takes no {option}: use shared=True"):
            log.consumer("jobs", "workers", **given)


@pytest.mark.parametrize("given", [{}, {"group": False}, {"partitions": [0]}])
def test_a_name_is_a_queue_or_not_for_as_long_as_it_is_open(
    log: sl.Log, join: Join, given: dict[str, Any]
) -> None:
    fill(log, 2)
    with join(), join() as other:
        with pytest.raises(sl.UnavailableError, match=r"join it with shared=True.* pid=\d+"):
            log.consumer("jobs", "workers", **given)
        assert len(took(other)) == 1

    with log.consumer("jobs", "workers", **given) as alone:
        assert alone.next(timeout_s=0) is not None
        with pytest.raises(sl.UnavailableError, match=r"is not shared.* pid=\d+"):
            join()
    assert len(took(join())) == 1


def test_an_event_loop_has_the_same_calls(log: sl.Log) -> None:
    fill(log, 5)

    async def work() -> list[int]:
        done = []
        async with (
            log as face,
            face.consumer("jobs", "workers", shared=True) as member,
        ):
            first = await member.next(timeout_s=5)
            assert first is not None
            await member.extend(first)
            await member.nack(first)
            while found := await member.fetch(2, timeout_s=0):
                done += numbers(found)
                await member.ack(found)
            assert await member.lag() == {0: 0}
            waiting = asyncio.create_task(member.next())
            await asyncio.sleep(0)
            await face.append("jobs", sl.Event("job", {"n": 9}))
            last = await waiting
            assert last is not None
            done += numbers([last])
        return done

    assert sorted(asyncio.run(work())) == [0, 1, 2, 3, 4, 9]


class CountedWaits(FakeClock):
    """Time passes as soon as a thread waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    def wait(self, event: threading.Event | Signal, timeout_s: float | None) -> bool:
        assert timeout_s is not None
        self.waits += 1
        self.advance(timeout_s)
        return event.is_set()


@pytest.mark.parametrize(
    ("lease_s", "waits"), [(9.0, 5), (0.3, 6)], ids=["held for long", "soon free"]
)
def test_a_member_looks_soon_for_what_soon_is_free_and_seldom_for_other(
    lease_s: float, waits: int
) -> None:
    clock = CountedWaits()
    with sl.open("memory:", clock=clock, retention=False) as log:
        log.create_topic("jobs")
        fill(log, 1)
        one, other = (
            log.consumer("jobs", "workers", shared=True, clock=clock, visibility_s=lease_s)
            for _ in range(2)
        )
        took(one)
        before = clock.waits

        found = other.next(timeout_s=5)

        assert (found is not None) == (lease_s < 5)
        assert clock.waits - before == waits


def test_partitions_take_turns(log: sl.Log, clock: FakeClock) -> None:
    log.create_topic("tasks", partitions=3)
    for partition in range(3):
        log.append_many("tasks", [sl.Event("task", partition)] * 3, partition=partition)

    with log.consumer("tasks", "workers", shared=True, clock=clock) as member:
        found = [took(member)[0].record.partition for _ in range(6)]

    assert sorted(found[:3]) == [0, 1, 2]
    assert found[:3] == found[3:]


def test_a_member_says_what_it_is_and_holds(log: sl.Log, join: Join) -> None:
    fill(log, 3)
    member = join()
    took(member, 2)

    assert repr(member) == "SharedConsumer('workers', 'jobs', held=2)"
    member.dead_letter(took(member)[0])
    assert [each.name for each in log.topics(internal=True) if "dead" in each.name] == [
        member.dead_letter_topic
    ]


def test_a_member_of_a_topic_that_was_dropped_reports_it(log: sl.Log, join: Join) -> None:
    fill(log, 1)
    member = join()
    (delivery,) = took(member)

    log.drop_topic("jobs")

    with pytest.raises(sl.InvalidError):
        member.ack(delivery)
