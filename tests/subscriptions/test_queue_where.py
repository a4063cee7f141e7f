"""Work queues with a predicate: what it leaves out is never leased, and holds nothing back."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import strandline as sl
from strandline.log import parts_of
from strandline.predicates import PredicateError
from strandline.subscriptions import Delivery, SharedConsumer, queue_leasing
from strandline.subscriptions.pages import POLL_S
from strandline.subscriptions.queue_leasing import WINDOW
from strandline.subscriptions.queue_records import QueueRecord
from strandline.subscriptions.queue_state import (
    FREE,
    Lease,
    QueueState,
    available,
    passed_over,
    without_left_out,
)
from strandline.testing import FakeClock
from strandline.triggers import dead_letters, redrive
from strandline.values import ValueKind
from tests.logs import SCHEMES

LARGE = "payload.amount >= 100"

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
    def joined(where: str = LARGE, **options: Any) -> SharedConsumer:
        return log.consumer("jobs", "workers", shared=True, clock=clock, where=where, **options)

    return joined


def fill(log: sl.Log, *amounts: object, key: str | None = None) -> None:
    log.append_many("jobs", [sl.Event("job", {"amount": each}, key=key) for each in amounts])


def took(member: SharedConsumer, most: int = 10) -> list[Delivery]:
    return member.fetch(most, timeout_s=0)


def batch(delivery: Delivery) -> Any:
    return delivery.record.value


def offsets(deliveries: Sequence[Delivery]) -> list[int]:
    return [each.record.offset for each in deliveries]


def stored(log: sl.Log) -> bytes:
    store = parts_of(log).store
    keys = dict(store.keys(store.find_topic(None, "jobs")))
    (raw,) = [raw for key, raw in keys.items() if key.startswith("queues/")]
    return raw


def test_members_share_what_matches_and_the_cursor_passes_the_rest(log: sl.Log, join: Join) -> None:
    fill(log, 5, 100, 6, 7, 200, 8, 300)
    one, other = join(), join()

    first, second, third = *took(one, 1), *took(other, 1), *took(one, 9)
    assert offsets([first, second, third]) == [1, 4, 6]
    assert took(one) == took(other) == []

    other.ack(second)
    assert log.cursor("jobs", "workers", 0) == 1
    assert one.lag() == other.lag() == {0: 2}
    one.ack(first)
    assert log.cursor("jobs", "workers", 0) == 6
    one.ack(third)
    assert log.cursor("jobs", "workers", 0) == 7
    assert one.lag() == {0: 0}


def test_what_is_left_out_is_kept_as_runs_and_never_as_leases(log: sl.Log, join: Join) -> None:
    fill(log, 100, *[1] * 400, 200, *[2] * 400)
    member = join()

    assert offsets(took(member)) == [0, 401]

    assert len(stored(log)) < 400
    assert member.lag() == {0: 2}


def test_without_a_match_the_cursor_is_stored_within_a_poll(
    log: sl.Log, join: Join, clock: FakeClock
) -> None:
    with join() as member:
        fill(log, 1, 2, 3)
        assert took(member) == []
        assert log.cursor("jobs", "workers", 0) == 3
        fill(log, 4)
        assert took(member) == []
        assert log.cursor("jobs", "workers", 0) == 3
        clock.advance(POLL_S)
        assert took(member) == []
        assert log.cursor("jobs", "workers", 0) == 4
        fill(log, 5)
        assert took(member) == []

    assert log.cursor("jobs", "workers", 0) == 5


def test_a_match_behind_more_than_a_window_of_others_is_found(log: sl.Log, join: Join) -> None:
    count = 2 * WINDOW + 10
    fill(log, *[1] * count, 100, *[1] * 10)

    with join() as member:
        found = member.fetch(5, timeout_s=60)
        assert offsets(found) == [count]
        member.ack(found)

    assert log.cursor("jobs", "workers", 0) == count + 11


def test_a_lease_that_runs_out_and_a_nack_come_again_and_the_rest_never(
    log: sl.Log, join: Join, clock: FakeClock
) -> None:
    fill(log, 1, 100, 2, 300, 3)
    one, other = join(visibility_s=10), join(visibility_s=10)
    first, second = took(one, 2)
    assert offsets([first, second]) == [1, 3]

    one.nack(second)
    (again,) = took(other, 5)
    assert (again.record.offset, again.count) == (3, 2)
    clock.advance(10)
    assert [(each.record.offset, each.count) for each in took(other, 5)] == [(1, 2), (3, 3)]


def test_a_record_on_which_the_predicate_fails_is_dead_lettered_and_redriven(
    log: sl.Log, join: Join
) -> None:
    fill(log, 1, "many", 100)
    where = "payload.amount::INT >= 100"
    with join(where) as member:
        found = took(member)
        assert offsets(found) == [2]
        member.ack(found)
        (letter,) = dead_letters(log, "jobs")
        assert (letter.record_offset, letter.consumer) == (1, "workers")
        assert "this predicate fails on a row" in letter.reason
        assert log.cursor("jobs", "workers", 0) == 3

        redrive(log, "jobs")
        (again,) = took(member)
        assert (again.record.offset, again.record.payload["amount"]) == (1, "many")
        member.ack(again)
        assert took(member) == []


def test_what_is_left_out_holds_up_neither_its_key_nor_its_time(
    log: sl.Log, join: Join, clock: FakeClock
) -> None:
    later = datetime.fromtimestamp(clock.now_us() / 1_000_000 + 60, UTC)
    log.append("jobs", sl.Event("job", {"amount": 1}, key="a"), deliver_at=later)
    fill(log, 2, 100, 3, 200, key="a")
    member = join(order="key")

    (first,) = took(member)
    assert first.record.offset == 2
    assert took(member) == []
    member.ack(first)
    assert log.cursor("jobs", "workers", 0) == 4
    (second,) = took(member)
    member.ack(second)
    assert log.cursor("jobs", "workers", 0) == 5


def test_a_match_that_is_not_due_waits_and_what_is_left_out_behind_it_is_settled(
    log: sl.Log, join: Join, clock: FakeClock
) -> None:
    later = datetime.fromtimestamp(clock.now_us() / 1_000_000 + 60, UTC)
    log.append("jobs", sl.Event("job", {"amount": 500}), deliver_at=later)
    fill(log, *[1] * 20)
    member = join()

    assert took(member) == []
    assert member.lag() == {0: 1}
    assert log.cursor("jobs", "workers", 0) == 0
    clock.advance(60)
    member.ack(took(member))
    assert log.cursor("jobs", "workers", 0) == 21


def test_another_predicate_of_the_same_name_passes_what_waited_for_the_first(
    log: sl.Log, join: Join
) -> None:
    fill(log, 100, 700, 150)
    with join() as before:
        assert offsets(took(before)) == [0, 1, 2]

    with join("payload.amount >= 500") as after:
        found = took(after)
        assert [(each.record.offset, each.count) for each in found] == [(1, 2)]
        assert log.cursor("jobs", "workers", 0) == 1
        after.ack(found)
        assert log.cursor("jobs", "workers", 0) == 3


def test_what_another_member_holds_is_left_to_it(log: sl.Log, join: Join) -> None:
    fill(log, 100, 700)
    one, other = join(), join("payload.amount >= 500")
    (held,) = took(one, 1)

    assert offsets(took(other)) == [1]
    assert log.cursor("jobs", "workers", 0) == 0
    one.ack(held)
    assert log.cursor("jobs", "workers", 0) == 1


def test_of_a_batch_topic_the_rows_that_match_come(clock: FakeClock) -> None:
    with sl.open("memory:", clock=clock) as log:
        log.create_topic("readings", value_kind=ValueKind.BATCH)
        for values in ([1, 2], [3, 30], [40, 50]):
            log.append("readings", pa.record_batch({"n": values}))
        options: dict[str, Any] = {"shared": True, "clock": clock, "where": "n >= 10"}
        with log.consumer("readings", "workers", **options) as member:
            found = took(member)
            rows = [batch(each).to_pydict()["n"] for each in found]
            assert list(zip(offsets(found), rows, strict=True)) == [(1, [30]), (2, [40, 50])]
            member.ack(found)
        assert log.cursor("readings", "workers", 0) == 3


def test_a_seek_goes_back_to_what_matches(log: sl.Log, join: Join) -> None:
    fill(log, 100, 1, 200, 2)
    member = join()
    member.ack(took(member))
    assert log.cursor("jobs", "workers", 0) == 4

    member.seek(0, 1)
    assert offsets(took(member)) == [2]


def test_the_async_face_is_the_same(log: sl.Log, join: Join) -> None:
    fill(log, 1, 100, 2)

    async def run() -> list[int]:
        async with join() as member:
            found = await member.fetch(5, timeout_s=1)
            await member.ack(found)
            assert await member.next(timeout_s=0) is None
            return offsets(found)

    assert asyncio.run(run()) == [1]
    assert log.cursor("jobs", "workers", 0) == 3


def test_text_that_does_not_fit_is_refused_before_the_consumer_exists(
    log: sl.Log, join: Join
) -> None:
    with pytest.raises(PredicateError, match="position=0"):
        join("amount > 100")

    assert not log.consumers("jobs")


def test_blank_text_is_no_predicate(log: sl.Log, join: Join) -> None:
    fill(log, 1, 100)

    assert offsets(took(join("  "))) == [0, 1]


def sight(wanted: set[int]) -> Callable[[int], QueueRecord]:
    return lambda n: QueueRecord(None, 0) if n in wanted else QueueRecord(None, 0, passed_to=n + 1)


def test_passing_over_keeps_entries_of_what_waits_and_joins_runs() -> None:
    state = QueueState(0, 2, leases=(Lease(0, 1, 0, FREE), Lease(1, 1, 99, "m")))

    left = without_left_out(state, 5, sight({3, 5}))
    after = passed_over(left, 8, sight({3, 5}))

    assert list(available(left, 8, 5, sight({3, 5}), by_key=False)) == [3, 5]
    assert after.settled == ((2, 3), (4, 5), (6, 8))
    assert (after.floor, after.next) == (1, 8)
    assert [each.offset for each in after.leases] == [1, 3, 5]


@pytest.mark.parametrize("bug", ["passed_over", "without_left_out"])
def test_a_queue_that_does_not_settle_what_is_left_out_keeps_its_cursor_back(
    bug: str, log: sl.Log, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_leasing, bug, lambda state, *_: state)
    fill(log, 600, 200)
    with join() as before:
        before.nack(took(before)[1], delay_s=60)
    fill(log, 1)

    with join("payload.amount >= 500") as member:
        member.ack([each for each in took(member) if each.record.payload["amount"] >= 500])
        assert took(member) == []

    assert log.cursor("jobs", "workers", 0) != 3
