"""What is stored beside records: samples of a lag, identities that move, and groups."""

from typing import Any, cast

import pytest

from strandline.log import Log
from strandline.log.gaps import Gaps
from strandline.log.identities import IdentityState
from strandline.log.lags import LagSample, sampled
from strandline.log.moved import identities_before
from strandline.log.quotas import QUOTA_CHECK_S, Quotas
from strandline.log.ranges import ReadRange
from strandline.log.store import Store, StoredTopic
from strandline.log.stored_groups import StoredGroup, decode_group, encode_group
from strandline.log.terms import Terms
from strandline.stores.memory import MemoryStore
from strandline.testing import FakeClock
from strandline.values import CorruptError, InvalidError, Offset, QuotaError, Tenant


class CountingStore(MemoryStore):
    """Counts the looks at what its topics hold."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.looks = 0
        segments = self.segments

        def counted(topic: Any, partition: int) -> Any:
            self.looks += 1
            return segments(topic, partition)

        self.segments = counted  # type: ignore[misc]


def test_two_samples_of_a_lag_are_kept_however_many_there_were() -> None:
    samples: tuple[LagSample, ...] = ()
    for hour in range(5):
        samples = sampled(samples, hour * 3_600_000_000, hour)

    assert [each.lag for each in samples] == [3, 4]
    assert sampled(samples, 4 * 3_600_000_000 + 1, 9) == samples


def test_identities_go_as_far_as_the_records_that_are_moved() -> None:
    sequences = [(1, 4, 10), (2, 5, 11)]
    keys: list[tuple[str | None, str, int, int, int]] = [
        (None, "pay-1", 4, 10, 1),
        (None, "pay-2", 5, 11, 1),
    ]

    moved = identities_before(IdentityState([(None, "till", 11, sequences)], keys), 5)

    assert moved == IdentityState([(None, "till", 11, sequences[:1])], keys[:1])
    assert identities_before(moved, 4) == IdentityState([], [])


def test_a_group_that_is_damaged_or_of_another_consumer_is_an_error() -> None:
    raw = encode_group(StoredGroup(None, "billing"))

    assert decode_group(raw, None, "billing") == StoredGroup(None, "billing")
    assert decode_group(None, None, "billing") == StoredGroup(None, "billing")
    with pytest.raises(CorruptError, match="cannot be read"):
        decode_group(raw[:-1], None, "billing")
    with pytest.raises(CorruptError, match="another consumer"):
        decode_group(raw, None, "shipping")


def test_gaps_before_a_cursor_are_none() -> None:
    gaps = Gaps(((1, 5), (7, 9)), ((5, 100), (6, 200)))

    assert gaps.after(5) == Gaps(((7, 9),), ((5, 100), (6, 200)))
    assert gaps.after(8) == Gaps(((8, 9),), ())


@pytest.mark.parametrize("given", [{"end": -1}, {"records_max": "5"}, {"bytes_max": 1.5}])
def test_each_limit_of_a_read_is_checked(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidError, match=next(iter(given))):
        ReadRange(0, **given).checked()


def test_a_key_says_which_partition_an_expected_offset_is_of() -> None:
    terms = Terms(expected_offset=Offset(3))

    routed = terms.route(["a", "a"], 4, lambda: 0)

    assert [*routed.values()] == [[0, 1]]
    with pytest.raises(InvalidError, match="append to each separately"):
        terms.route(["a", "b", "c", "d"], 4, lambda: 0)


def test_gaps_beyond_the_end_are_none() -> None:
    gaps = Gaps(((1, 5), (7, 9)), ((5, 100), (6, 200)))

    assert gaps.before(6) == Gaps(((1, 5),), ((5, 100),))
    assert gaps.before(8) == Gaps(((1, 5), (7, 8)), ((5, 100), (6, 200)))
    assert gaps.before(7) == Gaps(((1, 5),), ((5, 100), (6, 200)))


def test_a_partition_that_is_named_is_that_of_every_value() -> None:
    terms = Terms(partition=2)

    assert terms.route(["a", "b", None], 4, lambda: 0) == {2: range(3)}
    assert terms.route_one("a", 4, lambda: 0) == 2
    assert Terms().route(["a", None], 1, lambda: 0) == {0: range(2)}


def test_quotas_look_at_what_a_tenant_holds_once_in_a_while() -> None:
    clock = FakeClock()
    store = CountingStore(clock)
    acme = Tenant("acme")
    with Log(store, clock=clock, retention=False) as log:
        log.create_topic("orders", tenant="acme")
        found = store.find_topic(acme, "orders")
        assert found is not None
        quotas = Quotas(cast("Store[StoredTopic]", store), clock)
        assert quotas.refusals == 0
        assert quotas.is_free(None)
        assert not quotas.is_free(acme)
        quotas.change(acme, {"bytes_max": 1_000})
        looks = []
        for advance_s in (0.0, 0.01, 0.01, QUOTA_CHECK_S):
            clock.advance(advance_s)
            before = store.looks
            quotas.admit(found, acme, 1, 300 if advance_s else 10)
            looks.append(store.looks - before)

        assert looks == [1, 0, 0, 1]
        internal = log.create_topic("__strandline.notes", tenant="acme", internal=True)
        stored = store.find_topic(acme, internal.name)
        assert stored is not None
        quotas.admit(stored, acme, 1, 10_000)
        with pytest.raises(QuotaError):
            quotas.admit(found, acme, 1, 10_000)
        assert quotas.refusals == 1
