"""Rules about recognising repeated writes. Every public function is one."""

from functools import partial

from strandline.testing.conformance_checks import (
    OpenLog,
    event,
    high,
    numbers,
    refused,
    together,
)
from strandline.values import (
    PRODUCER_SEQUENCES_KEPT,
    ConflictError,
    InvalidError,
    partition_for_key,
)


def a_repeated_sequence_returns_the_original(open_log: OpenLog) -> None:
    """L10."""
    log = open_log()
    log.create_topic("orders")
    originals = [log.append("orders", event(n), producer="p", sequence=n * 10) for n in range(3)]

    repeats = [log.append("orders", event(9), producer="p", sequence=n * 10) for n in range(3)]

    assert [r.offset for r in repeats] == [r.offset for r in originals] == [0, 1, 2]
    assert [r.timestamp_us for r in repeats] == [r.timestamp_us for r in originals]
    assert all(r.is_repeat for r in repeats)
    assert not any(r.is_repeat for r in originals)
    assert numbers(log, "orders") == [0, 1, 2]


def a_sequence_that_was_passed_over_is_a_conflict(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    log.append("orders", event(0), producer="p", sequence=5)

    for sequence in (4, 0):
        with refused(ConflictError):
            log.append("orders", event(9), producer="p", sequence=sequence)

    assert numbers(log, "orders") == [0]


def the_latest_sequences_are_recognised_and_no_older_ones(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    for number in range(PRODUCER_SEQUENCES_KEPT + 1):
        log.append("orders", event(number), producer="p", sequence=number)

    oldest = log.append("orders", event(9), producer="p", sequence=1)
    with refused(ConflictError):
        log.append("orders", event(9), producer="p", sequence=0)

    assert oldest.is_repeat
    assert oldest.offset == 1
    assert high(log, "orders") == PRODUCER_SEQUENCES_KEPT + 1


def sequences_count_for_each_tenant_producer_and_partition(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2)

    receipts = [
        log.append("orders", event(0), producer=who, sequence=3, tenant=whose, partition=where)
        for who in ("p", "q")
        for whose in (None, "acme", "other")
        for where in (0, 1)
    ]

    assert not any(receipt.is_repeat for receipt in receipts)
    assert [high(log, "orders", partition) for partition in (0, 1)] == [6, 6]


def append_many_numbers_its_values_from_the_sequence(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2)
    keys = {partition_for_key(key, 2): key for key in "abcdefgh"}
    events = [event(n, key=keys[n % 2]) for n in range(6)]  # type: ignore[index]
    log.append_many("orders", events[:4], producer="p", sequence=100)

    again = log.append_many("orders", events, producer="p", sequence=100)
    single = log.append("orders", events[3], producer="p", sequence=103)

    assert [r.is_repeat for r in again] == [True] * 4 + [False] * 2
    assert [r.offset for r in again] == [0, 0, 1, 1, 2, 2]
    assert single.is_repeat
    assert numbers(log, "orders", 0) == [0, 2, 4]
    assert numbers(log, "orders", 1) == [1, 3, 5]


def more_sequences_than_can_be_recognised_are_refused(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    events = [event(0)] * (PRODUCER_SEQUENCES_KEPT + 1)

    with refused(InvalidError):
        log.append_many("orders", events, producer="p", sequence=0)
    log.append_many("orders", events[1:], producer="p", sequence=0)
    again = log.append_many("orders", events[1:], producer="p", sequence=0)

    with refused(InvalidError):
        log.append_many("orders", events[:2], producer="q", sequence=2**63 - 1)
    greatest = log.append("orders", events[0], producer="q", sequence=2**63 - 1)

    assert all(receipt.is_repeat for receipt in again)
    assert greatest.offset == PRODUCER_SEQUENCES_KEPT == high(log, "orders") - 1


def a_repeated_idempotency_key_returns_the_original(open_log: OpenLog) -> None:
    """L10; the newer case of E20."""
    log = open_log()
    log.create_topic("orders", partitions=3)

    original = log.append("orders", event(0), idempotency_key="request 1/å")
    repeat = log.append("orders", event(9), idempotency_key="request 1/å")
    other = log.append("orders", event(1), idempotency_key="request 2")
    tenants = log.append("orders", event(2), idempotency_key="request 2", tenant="acme")
    again = log.append("orders", event(9), idempotency_key="request 2", tenant="acme")

    assert repeat.is_repeat
    assert again.is_repeat
    assert again.offset == tenants.offset != other.offset
    assert (repeat.partition, repeat.offset) == (original.partition, original.offset)
    assert repeat.timestamp_us == original.timestamp_us
    assert not other.is_repeat
    assert not tenants.is_repeat
    assert log.describe_topic("orders").records == 3


def an_idempotency_key_stands_for_a_whole_call(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    log.append("orders", event(9))
    log.append_many("orders", [event(0), event(1)], idempotency_key="k")

    again = log.append_many("orders", [event(0), event(1)], idempotency_key="k")
    with refused(ConflictError):
        log.append_many("orders", [event(0)], idempotency_key="k")

    assert [(r.offset, r.is_repeat) for r in again] == [(1, True), (2, True)]
    assert numbers(log, "orders") == [9, 0, 1]


def identities_outlive_trimming(open_log: OpenLog) -> None:
    """WE16."""
    log = open_log()
    log.create_topic("orders")
    log.append("orders", event(0), producer="p", sequence=0)
    log.append("orders", event(1), idempotency_key="k")

    log.trim("orders", 0, 2)
    produced = log.append("orders", event(0), producer="p", sequence=0)
    identified = log.append("orders", event(1), idempotency_key="k")

    assert [(r.offset, r.is_repeat) for r in (produced, identified)] == [(0, True), (1, True)]
    assert high(log, "orders") == log.marks("orders", 0).low


def a_repeat_is_recognised_before_the_expected_offset(open_log: OpenLog) -> None:
    """The rule of E21."""
    log = open_log()
    log.create_topic("orders")
    log.append("orders", event(0), idempotency_key="k", expected_offset=0)
    log.append("orders", event(1), producer="p", sequence=0, expected_offset=1)

    identified = log.append("orders", event(0), idempotency_key="k", expected_offset=0)
    produced = log.append("orders", event(1), producer="p", sequence=0, expected_offset=1)

    assert [(r.offset, r.is_repeat) for r in (identified, produced)] == [(0, True), (1, True)]


def a_refused_write_leaves_no_identity(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    for identity in ({"idempotency_key": "k"}, {"producer": "p", "sequence": 0}):
        with refused(ConflictError):
            log.append("orders", event(9), expected_offset=7, **identity)

    receipts = [
        log.append("orders", event(0), idempotency_key="k"),
        log.append("orders", event(1), producer="p", sequence=0),
    ]

    assert not any(receipt.is_repeat for receipt in receipts)
    assert numbers(log, "orders") == [0, 1]


def of_many_with_one_identity_one_is_stored(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")

    receipts = together(
        [partial(log.append, "orders", event(n), idempotency_key="k") for n in range(8)]
    )

    assert sorted(receipt.is_repeat for receipt in receipts) == [False] + [True] * 7
    assert {receipt.offset for receipt in receipts} == {0}
    assert high(log, "orders") == 1


def half_or_two_identities_are_refused(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")

    for identity in (
        {"producer": "p"},
        {"sequence": 0},
        {"producer": "p", "sequence": -1},
        {"producer": "p", "sequence": True},
        {"producer": " p", "sequence": 0},
        {"producer": "", "sequence": 0},
        {"producer": "p", "sequence": 0, "idempotency_key": "k"},
        {"idempotency_key": ""},
        {"idempotency_key": "x" * 1025},
        {"idempotency_key": 7},
    ):
        with refused(InvalidError):
            log.append("orders", event(0), **identity)

    assert high(log, "orders") == 0
