"""Groups over the engines: the same rules, by the keyed area of each store."""

from collections.abc import Callable, Iterator

import pytest

import strandline as sl
from strandline.testing import FakeClock
from tests.groups import test_groups as groups

pytestmark = pytest.mark.slow


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def log(new_url: Callable[[], str], clock: FakeClock) -> Iterator[sl.Log]:
    with sl.open(new_url(), clock=clock) as opened:
        opened.create_topic("orders", partitions=4)
        yield opened


@pytest.mark.parametrize(
    "rule",
    [
        groups.test_two_members_share_the_partitions_and_moves_are_as_few_as_can_be,
        groups.test_a_member_that_stops_gives_back_at_once,
        groups.test_a_silent_member_is_succeeded_after_the_time_of_its_lease,
        groups.test_what_a_member_that_lost_its_lease_stores_is_refused,
        groups.test_a_member_that_woke_up_delivers_nothing_before_it_has_looked,
    ],
)
def test_a_group_keeps(
    rule: Callable[[sl.Log, FakeClock], None], log: sl.Log, clock: FakeClock
) -> None:
    rule(log, clock)
