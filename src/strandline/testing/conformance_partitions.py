"""Rules about added partitions. Every public function is a rule."""

from strandline.log.topic_changes import ROUTE_DELAY_S
from strandline.testing.conformance_checks import OpenTimedLog, event, refused
from strandline.testing.fake_clock import FakeClock
from strandline.values import ConflictError, InvalidError, partition_for_key

_KEYS = tuple(f"key-{number}" for number in range(40))


def added_partitions_are_empty_and_take_records(open_log: OpenTimedLog, clock: FakeClock) -> None:
    log = open_log(clock)
    log.create_topic("orders", partitions=2)
    log.append("orders", event(1), partition=1)

    described = log.add_partitions("orders", 5)
    receipt = log.append("orders", event(2), partition=4)

    assert described.settings.partitions == len(described.marks) == 5
    assert (receipt.partition, receipt.offset) == (4, 0)
    assert [log.marks("orders", number).high for number in range(5)] == [0, 1, 0, 0, 1]
    assert [record.event for record in log.read("orders", 4, 0)] == [event(2)]
    assert len(log.epochs("orders", 3)) == 1
    position = log.position("orders", 4, 1)
    assert log.resolve(position) == 1


def a_topic_never_loses_partitions(open_log: OpenTimedLog, clock: FakeClock) -> None:
    log = open_log(clock)
    log.create_topic("orders", partitions=3)

    for wrong in (2, 0, -1, 4097, True, 1.5, "4", None):
        with refused(InvalidError):
            log.add_partitions("orders", wrong)  # type: ignore[arg-type]
    with refused(InvalidError):
        log.add_partitions("ordres", 4)
    same = log.add_partitions("orders", 3)

    assert same.settings.partitions == 3
    assert same.settings.earlier_partitions == ()


def keys_are_routed_by_the_new_count_from_one_moment_on(
    open_log: OpenTimedLog, clock: FakeClock
) -> None:
    log = open_log(clock)
    log.create_topic("orders", partitions=2)
    for key in _KEYS:
        assert log.append("orders", event(1), key=key).partition == partition_for_key(key, 2)

    log.add_partitions("orders", 7)
    clock.advance(ROUTE_DELAY_S)
    one = [log.append("orders", event(2), key=key).partition for key in _KEYS]
    many = log.append_many("orders", [event(3)] * len(_KEYS), keys=_KEYS)

    wanted = [partition_for_key(key, 7) for key in _KEYS]
    assert one == wanted
    assert [each.partition for each in many] == wanted


def a_repeat_is_recognised_across_added_partitions(
    open_log: OpenTimedLog, clock: FakeClock
) -> None:
    log = open_log(clock)
    log.create_topic("orders", partitions=2)
    by_key = [
        log.append("orders", event(1), key=key, idempotency_key=f"write-{key}") for key in _KEYS
    ]
    many = log.append_many(
        "orders", [event(2)] * len(_KEYS), keys=_KEYS, producer="shop", sequence=1
    )
    keyless = log.append("orders", event(3), producer="alone", sequence=5)

    log.add_partitions("orders", 7)
    clock.advance(ROUTE_DELAY_S)
    again = [
        log.append("orders", event(1), key=key, idempotency_key=f"write-{key}") for key in _KEYS
    ]
    many_again = log.append_many(
        "orders", [event(2)] * len(_KEYS), keys=_KEYS, producer="shop", sequence=1
    )
    keyless_again = log.append("orders", event(3), producer="alone", sequence=5)
    longer = log.append_many(
        "orders", [event(2)] * 2 * len(_KEYS), keys=_KEYS * 2, producer="shop", sequence=1
    )
    moved = next(key for key in _KEYS if partition_for_key(key, 7) > 1)
    new = log.append("orders", event(4), key=moved, idempotency_key="new")
    new_again = log.append("orders", event(4), key=moved, idempotency_key="new")
    next_one = log.append("orders", event(5), key=moved, producer="shop", sequence=100)

    def places(receipts: object) -> list[tuple[int, int]]:
        return [(each.partition, each.offset) for each in receipts]  # type: ignore[attr-defined]

    assert places(again) == places(by_key)
    assert places(many_again) == places(many)
    assert places([keyless_again]) == places([keyless])
    assert places(longer)[: len(_KEYS)] == places(many)
    assert all(each.is_repeat for each in (*again, *many_again, keyless_again))
    assert (new.is_repeat, new_again.is_repeat, next_one.is_repeat) == (False, True, False)
    assert {each.partition for each in (new, next_one)} == {partition_for_key(moved, 7)}
    stored = sum(log.marks("orders", number).high for number in range(7))
    assert stored == 3 * len(_KEYS) + 3


def an_expected_offset_is_of_the_partition_where_the_key_belongs(
    open_log: OpenTimedLog, clock: FakeClock
) -> None:
    log = open_log(clock)
    log.create_topic("orders", partitions=2)
    key = next(key for key in _KEYS if partition_for_key(key, 7) > 1)
    for _ in range(3):
        log.append("orders", event(1), key=key)

    log.add_partitions("orders", 7)
    clock.advance(ROUTE_DELAY_S)
    with refused(ConflictError) as caught:
        log.append("orders", event(2), key=key, expected_offset=3)
    receipt = log.append("orders", event(2), key=key, expected_offset=0)

    assert caught.value.fields["end"] == 0
    assert receipt.partition == partition_for_key(key, 7)


def creating_with_an_earlier_count_gives_the_extended_topic(
    open_log: OpenTimedLog, clock: FakeClock
) -> None:
    log = open_log(clock)
    first = log.create_topic("orders", partitions=2)
    log.add_partitions("orders", 3)
    log.add_partitions("orders", 6)

    for partitions in (2, 3, 6):
        assert log.create_topic("orders", partitions=partitions) == first
    for partitions in (1, 4, 7):
        with refused(ConflictError):
            log.create_topic("orders", partitions=partitions)
    with refused(ConflictError):
        log.create_topic("orders", partitions=2, retention_age_s=60)


def consumers_and_trims_know_added_partitions(open_log: OpenTimedLog, clock: FakeClock) -> None:
    log = open_log(clock)
    log.create_topic("orders", partitions=1, retention_bytes=10**6)
    log.register("orders", "billing", {0: 0})
    log.add_partitions("orders", 3)
    for _ in range(4):
        log.append("orders", event(1), partition=2)

    assert log.register("orders", "billing", {2: 1}) == {2: 1}
    assert log.ack("orders", "billing", 2, 3) == 3
    report = log.trim("orders", 2, 4)

    assert [(lag.partition, lag.cursor) for lag in log.consumers("orders")] == [(0, 0), (2, 3)]
    assert (report.low, report.held_at) == (3, 3)
    assert [each.partition for each in log.apply_retention("orders")] == [0, 1, 2]
    assert [each.findings for each in log.verify("orders")] == [()] * 3


def dropping_a_topic_drops_its_added_partitions(open_log: OpenTimedLog, clock: FakeClock) -> None:
    log = open_log(clock)
    log.create_topic("orders", proof=True)
    log.add_partitions("orders", 3)
    log.append("orders", event(1), partition=2)
    log.proof_head("orders", 2)

    log.drop_topic("orders")
    log.create_topic("orders", partitions=3)

    assert [log.marks("orders", number).high for number in range(3)] == [0, 0, 0]
    assert log.describe().partitions == 3
