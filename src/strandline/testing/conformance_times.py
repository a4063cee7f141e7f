"""Rules about time, with a clock that the rule advances. Every public function is a rule."""

from strandline.testing.conformance_checks import OpenTimedLog, event, fill, high, refused
from strandline.testing.fake_clock import FakeClock
from strandline.values import (
    CONSUMER_IDLE_S,
    IDENTITY_AGE_S,
    InvalidError,
    TrimmedError,
)

_START_US = 1_700_000_000_000_000


def timestamps_are_append_times(open_log: OpenTimedLog, clock: FakeClock) -> None:
    log = open_log(clock)
    log.create_topic("orders")
    clock.set_now_us(_START_US)

    first = log.append("orders", event(0))
    clock.advance(1.5)
    second = log.append("orders", event(1))

    assert first.timestamp_us == _START_US
    assert second.timestamp_us == _START_US + 1_500_000
    read = [record.timestamp_us for record in log.read("orders", 0, 0)]
    assert read == [first.timestamp_us, second.timestamp_us]


def timestamps_never_go_back_within_a_partition(open_log: OpenTimedLog, clock: FakeClock) -> None:
    log = open_log(clock)
    log.create_topic("orders", partitions=2)
    clock.set_now_us(_START_US)
    log.append("orders", event(0), partition=0)

    clock.set_now_us(_START_US - 5_000_000)
    back = log.append("orders", event(1), partition=0)
    apart = log.append("orders", event(2), partition=1)
    log.trim("orders", 0, 2)
    emptied = log.append("orders", event(3), partition=0)
    clock.set_now_us(_START_US + 7)
    on = log.append("orders", event(4), partition=0)

    assert back.timestamp_us == emptied.timestamp_us == _START_US
    assert apart.timestamp_us == _START_US - 5_000_000
    assert on.timestamp_us == _START_US + 7


def an_offset_is_found_by_its_time(open_log: OpenTimedLog, clock: FakeClock) -> None:
    log = open_log(clock)
    log.create_topic("orders")
    clock.set_now_us(_START_US)
    for count in (2, 1, 2):
        fill(log, "orders", count)
        clock.advance(10)

    def at(seconds: float) -> int:
        return log.offset_at("orders", 0, _START_US + round(seconds * 1_000_000))

    assert [at(-1), at(0), at(0.000001), at(10), at(15), at(20), at(21)] == [0, 0, 2, 2, 3, 3, 5]
    log.trim("orders", 0, 3)
    assert at(0) == 3
    assert log.offset_at("orders", 0, -1) == 3
    with refused(InvalidError):
        log.offset_at("orders", 0, 1.5)  # type: ignore[arg-type]


def identities_are_kept_for_the_stated_time(open_log: OpenTimedLog, clock: FakeClock) -> None:
    """WE16: for a stated window, also for trimmed records."""
    log = open_log(clock)
    log.create_topic("orders")
    log.append("orders", event(0), idempotency_key="k")
    log.append("orders", event(1), producer="p", sequence=7)
    clock.advance(IDENTITY_AGE_S)

    within = [
        log.append("orders", event(0), idempotency_key="k").is_repeat,
        log.append("orders", event(1), producer="p", sequence=7).is_repeat,
    ]
    clock.advance(1)
    after = [
        log.append("orders", event(0), idempotency_key="k").is_repeat,
        log.append("orders", event(1), producer="p", sequence=3).is_repeat,
    ]

    assert within == [True, True]
    assert after == [False, False]
    assert high(log, "orders") == 4


def a_producer_is_kept_while_it_appends(open_log: OpenTimedLog, clock: FakeClock) -> None:
    log = open_log(clock)
    log.create_topic("orders")
    for sequence in range(3):
        log.append("orders", event(0), producer="p", sequence=sequence)
        if sequence == 0:
            log.append("orders", event(0), producer="silent", sequence=sequence)
        clock.advance(IDENTITY_AGE_S)

    repeat = log.append("orders", event(0), producer="p", sequence=0)
    later = log.append("orders", event(0), producer="silent", sequence=0)

    assert repeat.is_repeat
    assert not later.is_repeat


def an_idle_consumer_no_longer_holds_trimming(open_log: OpenTimedLog, clock: FakeClock) -> None:
    """WE11: only live consumers delay trimming; the others keep their cursors."""
    log = open_log(clock)
    log.create_topic("orders")
    fill(log, "orders", 10)
    log.ack("orders", "silent", 0, 1)
    log.ack("orders", "idle", 0, 3)
    clock.advance(CONSUMER_IDLE_S)
    log.ack("orders", "idle", 0, 3)

    held = log.trim("orders", 0, 9)
    clock.advance(1)
    live = {each.consumer: each.holds_retention for each in log.consumers("orders")}
    past = log.trim("orders", 0, 9)

    assert held.low == 1
    assert live == {"silent": False, "idle": True}
    assert past.low == 3
    assert log.cursor("orders", "silent", 0) == 1
    with refused(TrimmedError):
        log.read("orders", 0, 1)
    log.ack("orders", "silent", 0, 4)
    assert all(each.holds_retention for each in log.consumers("orders"))


def registering_is_a_heartbeat(open_log: OpenTimedLog, clock: FakeClock) -> None:
    log = open_log(clock)
    log.create_topic("orders")
    fill(log, "orders", 3)
    log.register("orders", "billing", {0: 0})
    clock.advance(CONSUMER_IDLE_S)
    log.register("orders", "billing", {0: 0})
    clock.advance(CONSUMER_IDLE_S)

    held = log.trim("orders", 0, 3)
    clock.advance(1)

    assert held.low == 0
    assert log.trim("orders", 0, 3).low == 3


def a_consumer_shows_when_it_was_last_seen(open_log: OpenTimedLog, clock: FakeClock) -> None:
    log = open_log(clock)
    log.create_topic("orders")
    fill(log, "orders", 3)
    log.ack("orders", "billing", 0, 2)
    clock.advance(60)

    log.ack("orders", "billing", 0, 1)

    (listed,) = log.consumers("orders")
    assert (listed.cursor, listed.seen_at_us) == (2, clock.now_us())


def retention_by_age_removes_what_is_older(open_log: OpenTimedLog, clock: FakeClock) -> None:
    log = open_log(clock)
    log.create_topic("orders", retention_age_s=60)
    for _ in range(3):
        fill(log, "orders", 1)
        clock.advance(30)

    (report,) = log.apply_retention("orders")
    low = report.low
    clock.advance(3600)
    (last,) = log.apply_retention("orders")

    assert low == 1
    assert (last.low, last.remaining) == (3, 0)
    assert log.append("orders", event(0)).offset == 3


def a_clock_that_ran_ahead_delays_retention(open_log: OpenTimedLog, clock: FakeClock) -> None:
    log = open_log(clock)
    log.create_topic("orders", retention_age_s=60)
    clock.set_now_us(_START_US + 10**15)
    fill(log, "orders", 1)
    clock.set_now_us(_START_US)
    fill(log, "orders", 1)
    clock.advance(3600)

    (report,) = log.apply_retention("orders")

    assert (report.removed, report.remaining) == (0, 2)


def a_wait_for_a_hint_ends_with_its_time(open_log: OpenTimedLog, clock: FakeClock) -> None:
    log = open_log(clock)
    log.create_topic("orders")
    watch = log.watch()
    watch.add("orders", 0, 0)

    assert not watch.wait(0)
    with refused(InvalidError):
        watch.wait(-1)
    with refused(InvalidError):
        watch.wait(float("nan"))
    watch.close()
