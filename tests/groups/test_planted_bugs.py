"""The tests of groups are worth what they find: bugs planted in them are found by one."""

from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

import pytest

import strandline as sl
from strandline.groups import Membership, Sightings, balance
from strandline.groups.identity import ProofsOfLife
from strandline.log import cursors
from strandline.log.cursors import ConsumerCursors
from strandline.subscriptions.acks import Acks
from strandline.subscriptions.outstanding import Outstanding
from strandline.subscriptions.rebalancing import Rebalancing
from strandline.subscriptions.settlement import Settlement
from strandline.testing import FakeClock
from tests.groups import test_groups as groups
from tests.planting import Bug
from tests.subscriptions import test_fetching as fetching
from tests.subscriptions.doubles import fill

Scenario = Callable[[sl.Log, FakeClock], None]


class Planted(NamedTuple):
    """A bug, and what has to fail because of it."""

    bug: Bug
    scenario: Scenario
    partitions: int = 4
    is_filled: bool = False

    def __str__(self) -> str:
        return self.bug.title


def _bug(
    title: str, owner: type | ModuleType, name: str, pieces: tuple[str, str], scenario: Scenario
) -> Planted:
    return Planted(Bug(title, owner, name, *pieces), scenario)


def without_clock(scenario: Callable[[sl.Log], None]) -> Scenario:
    return lambda log, _: scenario(log)


BUGS = [
    _bug(
        "the fence is left out",
        ConsumerCursors,
        "_move",
        ("_check_generation(...)", "None"),
        groups.test_what_a_member_that_lost_its_lease_stores_is_refused,
    ),
    _bug(
        "any generation is taken for the present one",
        cursors,
        "_check_generation",
        ("known.generation != generation", "False"),
        groups.test_what_a_member_that_lost_its_lease_stores_is_refused,
    ),
    _bug(
        "a lease is not renewed",
        Membership,
        "look",
        ("self._beat += 1", "self._beat = 1"),
        groups.test_members_that_live_keep_what_they_hold,
    ),
    _bug(
        "a member never doubts its lease",
        Membership,
        "is_valid",
        ("return _", "return True"),
        groups.test_a_member_that_woke_up_delivers_nothing_before_it_has_looked,
    ),
    _bug(
        "a lease never runs out",
        Sightings,
        "has_expired",
        ("return _", "return False"),
        groups.test_a_silent_member_is_succeeded_after_the_time_of_its_lease,
    ),
    _bug(
        "a lease runs out by the wall clock",
        Membership,
        "_ended",
        (
            "self._sightings.has_expired(...)",
            "not each.is_live_at(self._clock.now_us())",
        ),
        lambda log, clock: groups.test_a_wall_clock_that_jumps_moves_no_partition(
            log, clock, 3600.0
        ),
    ),
    _bug(
        "the end of a process is not asked for",
        ProofsOfLife,
        "has_ended",
        ("return True", "return False"),
        groups.test_one_that_is_gone_is_succeeded_at_once_where_that_can_be_proved,
    ),
    _bug(
        "a member leaves without a word",
        Membership,
        "leave",
        ("self._value.change(...)", "None"),
        groups.test_a_member_that_stops_gives_back_at_once,
    ),
    _bug(
        "a member takes what another holds",
        Membership,
        "_wanted",
        ("_ - holders.keys()", "self._aims(group, holders)"),
        groups.test_a_revoked_partition_is_held_until_what_was_delivered_is_settled,
    )._replace(is_filled=True),
    _bug(
        "a partition is handed over before it is drained",
        Rebalancing,
        "_hand_over",
        ("self._deliveries.is_drained(each)", "True"),
        groups.test_a_revoked_partition_is_held_until_what_was_delivered_is_settled,
    )._replace(is_filled=True),
    _bug(
        "a partition is handed over without its acks",
        Rebalancing,
        "_finish",
        ("self._acks.commit_partition(partition)", "pass"),
        fetching.test_a_revoked_partition_takes_its_acks_with_it,
    )._replace(partitions=2),
    _bug(
        "a partition that is taken is not fenced",
        Rebalancing,
        "_enter",
        ("self._register(partitions, generation)", "self._register(partitions, None)"),
        groups.test_a_delivery_of_an_earlier_generation_is_refused_by_the_one_that_holds_it_again,
    )._replace(is_filled=True),
    _bug(
        "everything moves at each change",
        balance,
        "targets",
        ("each[: shares[member]]", "()"),
        groups.test_two_members_share_the_partitions_and_moves_are_as_few_as_can_be,
    ),
    _bug(
        "a delivery of an earlier generation is acked",
        Settlement,
        "_check_generation",
        ("raise _", "pass"),
        groups.test_a_delivery_of_an_earlier_generation_is_refused_by_the_one_that_holds_it_again,
    )._replace(is_filled=True),
    _bug(
        "the cursor passes a gap",
        Outstanding,
        "_risen",
        ("floor in settled", "floor <= max(settled, default=-1)"),
        without_clock(fetching.test_an_ack_takes_one_a_list_or_everything_up_to_one),
    )._replace(partitions=2),
    _bug(
        "acks that wait are dropped by a close",
        Acks,
        "close",
        ("self.commit_partition(partition)", "None"),
        without_clock(fetching.test_acks_are_stored_after_so_many),
    )._replace(partitions=2),
]


@pytest.mark.parametrize("planted", BUGS, ids=str)
def test_a_planted_bug_is_found(planted: Planted) -> None:
    def run() -> None:
        clock = FakeClock()
        with sl.open("memory:", clock=clock) as log:
            log.create_topic("orders", partitions=planted.partitions)
            for partition in range(4 if planted.is_filled else 0):
                fill(log, "orders", partition, 3)
            planted.scenario(log, clock)

    run()

    with (
        planted.bug.planted(),
        pytest.raises((AssertionError, sl.StrandlineError, pytest.fail.Exception)),
    ):
        run()
