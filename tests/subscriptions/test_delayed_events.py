"""Events with a time of delivery: hidden from groups and queues until then, from nothing else."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.subscriptions import Delivery, SharedConsumer, outstanding, queue_leasing
from strandline.testing import FakeClock
from strandline.triggers import redrive
from strandline.values.delivery_time import DELIVER_AT

Open = Callable[[], sl.Log]
Reader = sl.Consumer | SharedConsumer


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def scheme(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", "memory"))


@pytest.fixture
def log(scheme: str, clock: FakeClock, tmp_path: Path) -> Iterator[sl.Log]:
    path = "" if scheme == "memory" else tmp_path / "log"
    with sl.open(f"{scheme}:{path}", clock=clock, retention=False) as opened:
        opened.create_topic("jobs")
        yield opened


on_each_store = pytest.mark.parametrize("scheme", ["memory", "file", "sqlite"], indirect=True)


@pytest.fixture(params=[False, True], ids=["group", "queue"])
def is_shared(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def after(clock: FakeClock, seconds: float) -> datetime:
    return datetime.fromtimestamp(clock.now_us() / 1_000_000, UTC) + timedelta(seconds=seconds)


def put(log: sl.Log, number: int, **terms: Any) -> None:
    key = terms.pop("key", None)
    log.append("jobs", sl.Event("job", {"n": number}, key=key), **terms)


def joined(log: sl.Log, clock: FakeClock, *, shared: bool, **options: Any) -> Any:
    if shared:
        return log.consumer("jobs", "workers", shared=True, clock=clock, **options)
    return log.consumer("jobs", "workers", clock=clock, **options)


def took(reader: Reader, most: int = 100) -> list[Delivery]:
    """Return what there is, by `next`."""
    found: list[Delivery] = []
    while len(found) < most and (delivery := reader.next(0.0)) is not None:
        found.append(delivery)
    return found


def numbers(found: list[Delivery]) -> list[int]:
    return [each.record.payload["n"] for each in found]


@on_each_store
def test_an_event_comes_when_it_is_due_and_after_later_offsets(
    log: sl.Log, clock: FakeClock, is_shared: bool
) -> None:
    put(log, 0, deliver_at=after(clock, 60))
    put(log, 1)
    reader = joined(log, clock, shared=is_shared)

    at_once = took(reader)
    reader.ack(at_once[0])
    clock.advance(59.999)
    early = took(reader)
    clock.advance(0.001)
    late = took(reader)
    reader.ack(late[0])

    assert (numbers(at_once), numbers(early), numbers(late)) == ([1], [], [0])
    assert late[0].count == 1
    assert log.cursor("jobs", "workers", 0) == 2


def test_plain_readers_see_it_at_once(log: sl.Log, clock: FakeClock) -> None:
    put(log, 0, deliver_at=after(clock, 60))

    with log.subscribe("jobs", start="earliest", clock=clock) as stream:
        followed = stream.next(0.0)

    assert followed is not None
    assert [each.payload["n"] for each in log.read("jobs", 0, 0)] == [0]
    assert followed.value.headers == {DELIVER_AT: "2023-11-14T22:14:20.000000Z"}  # type: ignore[union-attr]


@on_each_store
def test_what_is_acked_beyond_it_does_not_come_again(
    log: sl.Log, clock: FakeClock, is_shared: bool
) -> None:
    put(log, 0)
    put(log, 1, deliver_at=after(clock, 60))
    for number in range(2, 8):
        put(log, number)
    with joined(log, clock, shared=is_shared) as first:
        found = took(first)
        for each in (found[0], found[2], found[1], found[5]):
            first.ack(each)
    assert numbers(found) == [0, 2, 3, 4, 5, 6, 7]
    assert log.cursor("jobs", "workers", 0) == 1

    second = joined(log, clock, shared=is_shared)
    again = took(second)
    for each in again:
        second.ack(each)
    clock.advance(60)
    due = took(second)
    second.ack(due[0])

    assert numbers(again) == [4, 5, 7]
    assert numbers(due) == [1]
    assert log.cursor("jobs", "workers", 0) == 8


def test_one_that_came_due_while_no_process_ran_comes_first(
    log: sl.Log, clock: FakeClock, is_shared: bool
) -> None:
    put(log, 0, deliver_at=after(clock, 60))
    put(log, 1)
    with joined(log, clock, shared=is_shared) as first:
        first.ack(took(first)[0])
    clock.advance(120)
    put(log, 2)

    assert numbers(took(joined(log, clock, shared=is_shared))) == [0, 2]


@on_each_store
def test_a_nack_with_a_delay_outlives_its_process(
    log: sl.Log, clock: FakeClock, is_shared: bool
) -> None:
    put(log, 0)
    put(log, 1)
    with joined(log, clock, shared=is_shared) as first:
        failed, other = took(first)
        first.nack(failed, delay_s=60)
        first.ack(other)

    second = joined(log, clock, shared=is_shared)
    early = took(second)
    clock.advance(60)
    late = took(second)

    assert (numbers(early), numbers(late)) == ([], [0])
    assert late[0].count == 2


def test_a_nack_of_the_last_record_outlives_its_process(
    log: sl.Log, clock: FakeClock, is_shared: bool
) -> None:
    put(log, 0)
    put(log, 1)
    with joined(log, clock, shared=is_shared) as first:
        _, last = took(first)
        first.nack(last, delay_s=60)

    second = joined(log, clock, shared=is_shared)
    early = took(second)
    second.ack(early[0])
    clock.advance(60)

    assert (numbers(early), numbers(took(second))) == ([0], [1])


def test_a_member_that_succeeds_another_does_not_have_it_early(
    log: sl.Log, clock: FakeClock
) -> None:
    put(log, 0, deliver_at=after(clock, 60))
    put(log, 1)
    one = joined(log, clock, shared=False)
    one.ack(took(one)[0])
    one.close()

    other = joined(log, clock, shared=False)

    assert took(other) == []
    assert other.lag() == {0: 1}


def test_fetch_passes_over_what_is_not_due(log: sl.Log, clock: FakeClock) -> None:
    for number in range(6):
        put(log, number, deliver_at=after(clock, 60) if number % 2 else None)
    reader = joined(log, clock, shared=False)

    fetched = reader.fetch(timeout_s=0)
    reader.ack(fetched)
    clock.advance(60)
    due = [*reader.fetch(timeout_s=0), *reader.fetch(timeout_s=0), *reader.fetch(timeout_s=0)]

    assert (numbers(fetched), numbers(due)) == ([0, 2, 4], [1, 3, 5])


def test_an_ack_of_everything_up_to_one_leaves_what_is_not_due(
    log: sl.Log, clock: FakeClock
) -> None:
    put(log, 0, deliver_at=after(clock, 60))
    for number in (1, 2):
        put(log, number)
    reader = joined(log, clock, shared=False)

    reader.ack(took(reader)[-1], up_to=True)
    clock.advance(60)

    assert log.cursor("jobs", "workers", 0) == 0
    assert numbers(took(reader)) == [0]


def test_acks_that_are_committed_later_keep_their_gaps(log: sl.Log, clock: FakeClock) -> None:
    put(log, 0, deliver_at=after(clock, 60))
    for number in range(1, 5):
        put(log, number)
    with joined(log, clock, shared=False, commit_every=100) as first:
        first.ack(took(first)[:3])

    assert numbers(took(joined(log, clock, shared=False))) == [4]


def test_with_a_predicate_only_what_matches_waits(log: sl.Log, clock: FakeClock) -> None:
    for number in range(8):
        put(log, number, deliver_at=after(clock, 60) if number in (1, 2) else None)
    options = {"where": "payload.n % 2 = 1"}
    with joined(log, clock, shared=False, **options) as first:
        fetched = first.fetch(timeout_s=0)
        first.ack(fetched[0])

    second = joined(log, clock, shared=False, **options)
    again = took(second)
    clock.advance(60)
    due = took(second)
    second.ack([*again, *due])

    assert [numbers(each) for each in (fetched, again, due)] == [[3, 5, 7], [5, 7], [1]]
    assert log.cursor("jobs", "workers", 0) == 8


def test_lag_counts_what_is_open_and_not_what_is_beyond_the_cursor(
    log: sl.Log, clock: FakeClock, is_shared: bool
) -> None:
    put(log, 0, deliver_at=after(clock, 60))
    for number in range(1, 6):
        put(log, number)
    reader = joined(log, clock, shared=is_shared)
    for each in took(reader)[:4]:
        reader.ack(each)
    clock.advance(30)

    (shown,) = log.consumers("jobs")

    assert reader.lag() == {0: 2}
    if not is_shared:
        assert (shown.lag, shown.lag_s, shown.cursor) == (2, 30.0, 0)


def test_what_is_not_due_is_not_late(log: sl.Log, clock: FakeClock) -> None:
    put(log, 0, deliver_at=after(clock, 60))
    with joined(log, clock, shared=False) as reader:
        took(reader)
        clock.advance(30)
        early = log.consumers("jobs")[0].lag_s
        clock.advance(40)
        late = log.consumers("jobs")[0].lag_s

    assert (early, late) == (0.0, 10.0)


def test_retention_keeps_it_until_it_was_delivered(
    log: sl.Log, clock: FakeClock, is_shared: bool
) -> None:
    put(log, 0, deliver_at=after(clock, 60))
    for number in range(1, 4):
        put(log, number)
    reader = joined(log, clock, shared=is_shared)
    for each in took(reader):
        reader.ack(each)

    log.trim("jobs", 0, 4)
    kept = log.marks("jobs", 0).low
    clock.advance(60)
    reader.ack(took(reader)[0])
    log.trim("jobs", 0, 4)

    assert (kept, log.marks("jobs", 0).low) == (0, 4)


def test_a_seek_forgets_what_was_acked_beyond_the_cursor(
    log: sl.Log, clock: FakeClock, is_shared: bool
) -> None:
    put(log, 0, deliver_at=after(clock, 60))
    put(log, 1)
    reader = joined(log, clock, shared=is_shared)
    reader.ack(took(reader)[0])

    reader.seek(0, 0)
    again = numbers(took(reader))
    reader.seek(0, 2)
    clock.advance(60)

    assert (again, took(reader)) == ([1], [])


def test_a_clock_that_jumps_forward_makes_it_due_and_back_hides_it(
    log: sl.Log, clock: FakeClock, is_shared: bool
) -> None:
    put(log, 0, deliver_at=after(clock, 60))
    reader = joined(log, clock, shared=is_shared)
    start_us = clock.now_us()
    assert took(reader) == []

    clock.set_now_us(start_us - 3_600_000_000)
    clock.advance(60)
    hidden = took(reader)
    clock.set_now_us(start_us + 3_600_000_000)

    assert (hidden, numbers(took(reader))) == ([], [0])


def test_a_delayed_event_that_is_given_up_is_a_dead_letter_and_comes_again_when_redriven(
    log: sl.Log, clock: FakeClock, is_shared: bool
) -> None:
    put(log, 0, deliver_at=after(clock, 60))
    put(log, 1)
    reader = joined(log, clock, shared=is_shared, deliveries_max=1)
    reader.ack(took(reader)[0])
    clock.advance(60)

    assert reader.nack(took(reader)[0], reason="broken")
    assert log.cursor("jobs", "workers", 0) == 2
    redrive(log, "jobs", consumer="workers")
    clock.advance(2)

    assert numbers(took(reader)) == [0]


def test_a_delayed_event_does_not_hold_up_its_key_and_waits_for_one_that_is_held(
    log: sl.Log, clock: FakeClock
) -> None:
    put(log, 0, key="a", deliver_at=after(clock, 60))
    put(log, 1, key="a")
    put(log, 2, key="a")
    member = joined(log, clock, shared=True, order="key", visibility_s=600)

    (first,) = took(member)
    clock.advance(60)
    none = took(member)
    member.ack(first)
    following = took(member)

    assert (numbers([first]), none, numbers(following)) == ([1], [], [0])


def test_so_many_may_wait_and_then_a_partition_is_read_on_as_they_come(
    log: sl.Log, clock: FakeClock, is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outstanding, "WAITING_MAX", 4)
    monkeypatch.setattr(queue_leasing, "WINDOW", 4)
    for number in range(6):
        put(log, number, deliver_at=after(clock, 60 + number))
    put(log, 6)
    reader = joined(log, clock, shared=is_shared)

    before = took(reader)
    clock.advance(63)
    due = took(reader)
    for each in due:
        reader.ack(each)
    clock.advance(60)
    rest = took(reader)

    assert before == []
    assert numbers(due) == ([0, 1, 2, 3, 6] if not is_shared else [0, 1, 2, 3])
    assert sorted(numbers(rest)) == ([4, 5] if not is_shared else [4, 5, 6])
    if not is_shared:
        assert reader.assigned() == [0]


def test_a_long_wait_does_not_stop_the_others(
    log: sl.Log, clock: FakeClock, is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outstanding, "OUTSTANDING_MAX", 8)
    monkeypatch.setattr(queue_leasing, "WINDOW", 8)
    put(log, 0, deliver_at=after(clock, 60))
    reader = joined(log, clock, shared=is_shared)
    for number in range(1, 30):
        put(log, number)
        (each,) = took(reader)
        reader.ack(each)
    clock.advance(60)

    assert numbers(took(reader)) == [0]


@pytest.mark.parametrize(
    "moment",
    [datetime(2030, 1, 1), "2030-01-01", 1_900_000_000, timedelta(hours=1), True],
)
def test_what_is_no_time_with_a_zone_is_refused_before_anything_is_stored(
    log: sl.Log, moment: Any
) -> None:
    with pytest.raises(sl.InvalidError, match="deliver_at"):
        put(log, 0, deliver_at=moment)
    with pytest.raises(sl.InvalidError, match="deliver_at"):
        log.append_many("jobs", [sl.Event("job")], deliver_at=moment)

    assert log.marks("jobs", 0).high == 0


def test_past_and_far_times_are_taken_as_they_are(
    log: sl.Log, clock: FakeClock, is_shared: bool
) -> None:
    far = datetime.max.replace(tzinfo=UTC)
    put(log, 0, deliver_at=datetime.min.replace(tzinfo=UTC))
    put(log, 1, deliver_at=far)
    put(log, 2, deliver_at=datetime(1999, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=45))))
    reader = joined(log, clock, shared=is_shared)

    found = took(reader)
    reader.nack(found[0], delay_s=1e300)

    assert numbers(found) == [0, 2]
    assert took(reader) == []


def test_the_header_is_checked_where_it_is_set_by_hand(log: sl.Log, clock: FakeClock) -> None:
    with pytest.raises(sl.InvalidError, match=r"strandline\.deliver_at"):
        sl.Event("job", headers={DELIVER_AT: "tomorrow"})
    event = sl.Event("job", {"n": 0}, headers={DELIVER_AT: "2023-11-14T22:14:20.000000Z"})
    with pytest.raises(sl.InvalidError, match="another delivery time"):
        log.append("jobs", event, deliver_at=after(clock, 1))

    log.append("jobs", event, deliver_at=after(clock, 60))

    assert took(joined(log, clock, shared=False)) == []


def test_what_is_no_event_has_no_time_of_delivery(log: sl.Log, clock: FakeClock) -> None:
    log.create_topic("blobs", value_kind="bytes")

    with pytest.raises(sl.InvalidError, match="append an Event"):
        log.append("blobs", b"x", deliver_at=after(clock, 1))

    assert log.marks("blobs", 0).high == 0


@on_each_store
def test_an_event_keeps_its_bytes_and_its_other_headers(log: sl.Log, clock: FakeClock) -> None:
    event = sl.Event("job", {"b": 1.0, "a": [None]}, key="k", headers={"z": "1", "a": "2"})

    log.append("jobs", event, deliver_at=after(clock, 1))

    (stored,) = log.read("jobs", 0, 0)
    assert isinstance(stored.value, sl.Event)
    assert stored.value.payload_json == event.payload_json
    assert stored.value.headers == {**event.headers, DELIVER_AT: "2023-11-14T22:13:21.000000Z"}


def test_a_repeat_is_recognised_whatever_its_time(log: sl.Log, clock: FakeClock) -> None:
    put(log, 0, deliver_at=after(clock, 1), idempotency_key="once")
    again = log.append("jobs", sl.Event("job"), deliver_at=after(clock, 9), idempotency_key="once")

    assert again.is_repeat


def test_it_works_on_an_event_loop(log: sl.Log, clock: FakeClock) -> None:
    async def run() -> tuple[list[int], list[int]]:
        async with sl.open("memory:", clock=clock) as opened:
            await opened.create_topic("jobs")
            event = sl.Event("job", {"n": 0})
            await opened.append("jobs", event, deliver_at=after(clock, 60))
            await opened.append_many("jobs", [sl.Event("job", {"n": 1})], deliver_at=None)
            async with opened.consumer("jobs", "workers", clock=clock) as reader:
                first = await reader.fetch(timeout_s=0)
                await reader.ack(first)
                clock.advance(60)
                return numbers(first), numbers(await reader.fetch(timeout_s=0))

    assert asyncio.run(run()) == ([1], [0])
