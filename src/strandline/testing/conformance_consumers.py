"""Rules about trimming and consumers. Every public function is a rule."""

import os

from strandline.testing.conformance_checks import OpenLog, event, fill, numbers, refused
from strandline.values import (
    InvalidError,
    LeaseLostError,
    TrimmedError,
    UnavailableError,
    ValueKind,
)


def trimming_moves_the_low_water_mark_exactly(open_log: OpenLog) -> None:
    """TE1, TE2, TE3, the trims; WA8, WE11: removed records are refused and never skipped."""
    log = open_log()
    log.create_topic("orders", partitions=2)
    fill(log, "orders", 10)
    fill(log, "orders", 2, partition=1)

    report = log.trim("orders", 0, 4)

    assert (report.partition, report.removed, report.remaining) == (0, 4, 6)
    assert (report.low, report.held_at) == (4, None)
    assert numbers(log, "orders", 0, 4) == [4, 5, 6, 7, 8, 9]
    assert [record.offset for record in log.read("orders", 0, 5, 7)] == [5, 6]
    assert [record.offset for record in log.read("orders", 0, 6, records_max=2)] == [6, 7]
    assert numbers(log, "orders", 1) == [0, 1]
    for start in (0, 3):
        with refused(TrimmedError) as caught:
            log.read("orders", 0, start)
        assert caught.value.oldest == log.marks("orders", 0).low


def trimming_never_goes_back(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    fill(log, "orders", 10)
    log.trim("orders", 0, 6)

    report = log.trim("orders", 0, 2)

    assert (report.removed, report.remaining, report.low) == (0, 4, 6)
    for before in (-1, 11, True):
        with refused(InvalidError):
            log.trim("orders", 0, before)
    assert numbers(log, "orders", 0, 6) == [6, 7, 8, 9]


def offsets_are_never_used_again(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    fill(log, "orders", 3)

    log.trim("orders", 0, 3)
    receipt = log.append("orders", event(3))

    assert receipt.offset == 3
    assert numbers(log, "orders", 0, 3) == [3]


def a_trim_reports_the_latest_offset_and_what_became_of_storage(open_log: OpenLog) -> None:
    """TE3, E3, E15."""
    log = open_log()
    log.create_topic("orders")
    assert log.trim("orders", 0, 0).latest is None
    fill(log, "orders", 4)

    reports = [log.trim("orders", 0, before) for before in (0, 3, 4, 4)]

    assert [report.latest for report in reports] == [3, 3, 3, 3]
    assert reports[0].is_released
    assert all(isinstance(report.is_released, bool) for report in reports)


def trimming_stops_at_the_slowest_consumer(open_log: OpenLog) -> None:
    """WE11."""
    log = open_log()
    log.create_topic("orders")
    fill(log, "orders", 10)
    log.ack("orders", "fast", 0, 9)
    log.ack("orders", "slow", 0, 3, tenant="acme")

    held = log.trim("orders", 0, 8)
    within = log.trim("orders", 0, 3)
    forced = log.trim("orders", 0, 8, force=True)

    assert (held.removed, held.low, held.held_at) == (3, 3, 3)
    assert (within.removed, within.held_at) == (0, None)
    assert (forced.removed, forced.low, forced.held_at) == (5, 8, None)
    assert log.cursor("orders", "slow", 0, tenant="acme") == held.low


def a_consumer_holds_its_own_partitions_only(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2)
    fill(log, "orders", 5)
    fill(log, "orders", 5, partition=1)
    log.ack("orders", "billing", 0, 1)

    assert log.trim("orders", 0, 5).low == 1
    assert log.trim("orders", 1, 5).low == 5


def retention_by_bytes_keeps_the_newest(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("raw", value_kind=ValueKind.BYTES)
    log.append_many("raw", [b"x" * 100] * 10)
    log.change_retention("raw", retention_age_s=None, retention_bytes=350)

    (report,) = log.apply_retention("raw")

    assert (report.low, report.remaining) == (7, 3)
    for retention_bytes, low in ((300, 7), (299, 8), (1, 9)):
        log.change_retention("raw", retention_age_s=None, retention_bytes=retention_bytes)
        (report,) = log.apply_retention("raw")
        assert (report.low, report.remaining) == (low, 10 - low)


def retention_stops_at_the_slowest_consumer(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("raw", value_kind=ValueKind.BYTES)
    log.append_many("raw", [b"x" * 100] * 10)
    log.ack("raw", "slow", 0, 2)
    log.change_retention("raw", retention_age_s=None, retention_bytes=350)

    (report,) = log.apply_retention("raw")

    assert (report.low, report.held_at) == (2, 2)


def a_limit_does_not_wait_for_consumers(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("raw", value_kind=ValueKind.BYTES)
    log.append_many("raw", [b"x" * 100] * 10)
    log.ack("raw", "slow", 0, 2)
    log.change_retention("raw", retention_age_s=None, retention_bytes=300, limit_bytes=500)

    (over,) = log.apply_retention("raw")
    (again,) = log.apply_retention("raw")
    with refused(TrimmedError):
        log.read("raw", 0, 2)
    log.ack("raw", "slow", 0, 6)
    (held,) = log.apply_retention("raw")

    assert (over.low, over.held_at) == (5, 2)
    assert (again.removed, again.held_at) == (0, 2)
    assert (held.low, held.held_at) == (6, 6)
    with refused(InvalidError):
        log.create_topic("less", retention_bytes=300, limit_bytes=299)


def retention_keeps_everything_by_default(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    fill(log, "orders", 10)

    (report,) = log.apply_retention("orders")

    assert (report.removed, report.remaining) == (0, 10)


def a_cursor_is_none_until_something_is_acked(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2)
    fill(log, "orders", 5)

    before = log.cursor("orders", "billing", 0)
    acked = log.ack("orders", "billing", 0, 0)

    assert before is None
    assert acked == log.cursor("orders", "billing", 0) == 0
    assert log.cursor("orders", "billing", 1) is None


def a_registered_consumer_holds_what_it_has_not_read(open_log: OpenLog) -> None:
    """WE11: a consumer counts from its registration, in each of its partitions."""
    log = open_log()
    log.create_topic("orders", partitions=3)
    for partition in range(3):
        fill(log, "orders", 5, partition=partition)
    log.trim("orders", 1, 2)

    cursors = log.register("orders", "billing", {0: 0, 1: 1, 2: 5})

    assert dict(cursors) == {0: 0, 1: 2, 2: 5}
    listed = log.consumers("orders")
    found = [(each.consumer, each.partition, each.cursor, each.lag) for each in listed]
    assert found == [("billing", 0, 0, 5), ("billing", 1, 2, 3), ("billing", 2, 5, 0)]
    assert [log.trim("orders", partition, 5).low for partition in range(3)] == [0, 2, 5]


def registering_again_moves_no_cursor(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2)
    fill(log, "orders", 5)
    log.register("orders", "billing", {0: 1})
    log.ack("orders", "billing", 0, 3)

    assert dict(log.register("orders", "billing", {0: 5, 1: 0})) == {0: 3, 1: 0}
    assert log.cursor("orders", "billing", 0) == 3


def a_registration_that_is_refused_leaves_nothing(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2)
    fill(log, "orders", 5)

    for starts in ({0: 0, 1: 1}, {0: 0, 2: 0}, {0: 0, 1: -1}, {0: True}):
        with refused(InvalidError):
            log.register("orders", "billing", starts)
    with refused(InvalidError):
        log.register("orders", "", {0: 0})

    assert not log.consumers("orders")
    assert log.trim("orders", 0, 5).low == 5


def a_claim_excludes_others_until_it_is_released(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2)
    log.create_topic("others")
    claim = log.claim("orders", "billing", 0)

    with refused(UnavailableError) as caught:
        log.claim("orders", "billing", 0)
    elsewhere = [
        log.claim("orders", "billing", 1),
        log.claim("orders", "mail", 0),
        log.claim("orders", "billing", 0, tenant="acme"),
        log.claim("others", "billing", 0),
    ]
    log.ack("orders", "billing", 0, 0)
    claim.release()
    claim.release()
    again = log.claim("orders", "billing", 0)
    claim.release()

    assert caught.value.fields["pid"] == os.getpid()
    assert caught.value.fields["host"]
    assert len(elsewhere) == 4
    with refused(UnavailableError):
        log.claim("orders", "billing", 0)
    again.release()
    with refused(InvalidError):
        log.claim("orders", "billing", 2)


def an_ack_never_goes_back(open_log: OpenLog) -> None:
    """WE2."""
    log = open_log()
    log.create_topic("orders")
    fill(log, "orders", 5)

    cursors = [log.ack("orders", "billing", 0, end) for end in (2, 4, 1, 4, 5)]

    assert cursors == [2, 4, 4, 4, 5]
    assert log.cursor("orders", "billing", 0) == cursors[-1]


def an_ack_beyond_the_end_is_refused(open_log: OpenLog) -> None:
    """WE2."""
    log = open_log()
    log.create_topic("orders")
    fill(log, "orders", 5)
    log.ack("orders", "billing", 0, 3)

    for end in (6, 100, -1, True, 2.0):
        with refused(InvalidError):
            log.ack("orders", "billing", 0, end)  # type: ignore[arg-type]
    with refused(InvalidError):
        log.ack("orders", "new", 0, 6)

    assert log.cursor("orders", "billing", 0) == 3
    assert log.cursor("orders", "new", 0) is None


def a_seek_goes_to_the_given_offset(open_log: OpenLog) -> None:
    """WE2."""
    log = open_log()
    log.create_topic("orders")
    fill(log, "orders", 5)
    log.ack("orders", "billing", 0, 4)

    log.seek("orders", "billing", 0, 1)

    assert log.cursor("orders", "billing", 0) == 1
    assert log.ack("orders", "billing", 0, 2) == 2
    for offset in (6, -1):
        with refused(InvalidError):
            log.seek("orders", "billing", 0, offset)
    log.trim("orders", 0, 2)
    with refused(TrimmedError):
        log.seek("orders", "billing", 0, 1)
    assert log.cursor("orders", "billing", 0) == 2


def consumers_are_listed_with_their_lag(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2)
    fill(log, "orders", 5)
    fill(log, "orders", 3, partition=1)
    log.ack("orders", "mail", 0, 5)
    log.ack("orders", "billing", 1, 1)
    log.ack("orders", "billing", 0, 2)

    listed = log.consumers("orders")

    found = [(each.consumer, each.partition, each.cursor, each.lag) for each in listed]
    assert found == [("billing", 0, 2, 3), ("billing", 1, 1, 2), ("mail", 0, 5, 0)]
    assert all(each.holds_retention and each.tenant is None for each in listed)


def a_holder_of_an_earlier_generation_is_refused(open_log: OpenLog) -> None:
    """A member that has lost its lease moves no cursor."""
    log = open_log()
    log.create_topic("orders", partitions=2)
    fill(log, "orders", 5)
    log.register("orders", "billing", {0: 0, 1: 0}, generation=3)
    log.ack("orders", "billing", 0, 2, generation=3)

    log.register("orders", "billing", {0: 0}, generation=4)

    for late in (
        lambda: log.ack("orders", "billing", 0, 4, generation=3),
        lambda: log.ack("orders", "billing", 0, 0, generation=3),
        lambda: log.ack("orders", "billing", 0, 4, generation=5),
        lambda: log.seek("orders", "billing", 0, 0, generation=3),
        lambda: log.register("orders", "billing", {0: 0, 1: 0}, generation=3),
        lambda: log.ack("orders", "others", 0, 4, generation=3),
    ):
        with refused(LeaseLostError) as caught:
            late()
        assert caught.value.partition == 0
    assert log.cursor("orders", "billing", 0) == 2
    assert log.ack("orders", "billing", 0, 3, generation=4) == 3
    assert log.ack("orders", "billing", 0, 4) == 4
    log.seek("orders", "billing", 0, 1, generation=4)
    assert log.cursor("orders", "billing", 0) == 1
    assert [each.generation for each in log.consumers("orders")] == [4, 3]


def consumer_names_that_look_alike_are_apart(open_log: OpenLog) -> None:
    """WE4."""
    log = open_log()
    for topic in ("a", "a__b"):
        log.create_topic(topic)
        fill(log, topic, 20)
    names = ["a/b", "a_b", "A_B", "b__c", "c", "../c", "å", "a b", "a\\b", "CON", "a%2Fb"]

    for end, name in enumerate(names):
        log.ack("a", name, 0, end)
    log.ack("a__b", "c", 0, 9)

    assert [log.cursor("a", name, 0) for name in names] == list(range(len(names)))
    assert log.cursor("a__b", "c", 0) == 9
    assert log.cursor("a__b", "b__c", 0) is None


def hostile_consumer_names_are_refused(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")

    for name in ("", " ", " a", "a\n", "nul\0", "x" * 201, "\ud800", "e\u0301", None, 7):
        with refused(InvalidError):
            log.ack("orders", name, 0, 0)  # type: ignore[arg-type]
        with refused(InvalidError):
            log.cursor("orders", name, 0)  # type: ignore[arg-type]

    assert not log.consumers("orders")


def tenants_consumers_are_apart(open_log: OpenLog) -> None:
    """T1."""
    log = open_log()
    log.create_topic("shared")
    acmes = log.create_topic("orders", tenant="acme")
    fill(log, "shared", 5)
    fill(log, acmes, 5)

    log.ack("shared", "billing", 0, 1)
    log.ack("shared", "billing", 0, 2, tenant="acme")
    log.ack(acmes, "billing", 0, 3)

    assert log.cursor("shared", "billing", 0) == 1
    assert log.cursor("shared", "billing", 0, tenant="acme") == 2
    assert log.cursor("shared", "billing", 0, tenant="other") is None
    assert [each.tenant for each in log.consumers("shared", tenant="acme")] == ["acme"]
    assert [each.tenant for each in log.consumers("shared")] == [None]
    assert log.cursor(acmes, "billing", 0, tenant="acme") == log.cursor(acmes, "billing", 0)
    with refused(InvalidError):
        log.ack(acmes, "billing", 0, 4, tenant="other")
    assert not log.delete_consumer("shared", "billing", tenant="other")
    assert log.cursor("shared", "billing", 0) == 1


def a_deleted_consumer_starts_again(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2)
    fill(log, "orders", 5)
    log.ack("orders", "billing", 0, 2)
    log.ack("orders", "billing", 1, 0)
    log.ack("orders", "mail", 0, 4)

    was_known = log.delete_consumer("orders", "billing")

    assert was_known
    assert not log.delete_consumer("orders", "billing")
    assert log.cursor("orders", "billing", 0) is None
    assert [each.consumer for each in log.consumers("orders")] == ["mail"]
    assert log.trim("orders", 0, 5).low == log.cursor("orders", "mail", 0)
