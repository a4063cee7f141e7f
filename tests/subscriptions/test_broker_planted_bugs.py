"""Each bug that is planted in the brokers is noticed by the test that ought to."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import strandline as sl
from strandline.log.broker import Announcer
from strandline.subscriptions import MachineBroker, Subscription
from strandline.testing import FaultyBroker
from tests.planting import Bug
from tests.subscriptions import test_brokers as brokers
from tests.subscriptions import test_machine_broker as machine


class Planted(NamedTuple):
    """A bug, and the test that has to notice."""

    bug: Bug
    caught_by: Callable[[Path], None]

    def __str__(self) -> str:
        return self.bug.title


def transaction(folder: Path) -> None:
    brokers.test_a_transaction_is_announced_once_for_each_topic_and_after_its_commit(
        folder, FaultyBroker()
    )


def listing(folder: Path) -> None:
    broker = FaultyBroker()
    with sl.open(f"sqlite:{folder / 'listing'}", broker=broker) as log:
        log.create_topic("orders")
        brokers.test_live_subscriptions_are_listed_until_they_are_closed_tc17(log, broker)


def kills(folder: Path) -> None:
    machine.test_a_subscriber_in_another_process_is_woken_listed_and_gone_when_it_is_killed(
        "sqlite:", folder, str(folder / "broker")
    )


def topics(folder: Path) -> None:
    machine.test_a_wake_up_comes_to_those_of_its_topic_alone(str(folder / "topics"))


BUGS = [
    Planted(
        Bug(
            "a transaction is announced as it goes",
            Announcer,
            "announce",
            "inside.add(...)",
            "self._publish(topic)",
        ),
        transaction,
    ),
    Planted(
        Bug("a closed subscription stays", Subscription, "close", "self._closing()", "pass"),
        listing,
    ),
    Planted(
        Bug(
            "the dead are listed",
            MachineBroker,
            "_read",
            "_.try_lock(...)",
            "False",
        ),
        kills,
    ),
    Planted(
        Bug(
            "every subscriber is woken",
            MachineBroker,
            "_listen",
            "_ in names",
            "True",
        ),
        topics,
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("planted", BUGS, ids=str)
def test_the_tests_catch_a_planted_bug(planted: Planted, tmp_path: Path) -> None:
    for name in ("healthy", "broken"):
        (tmp_path / name).mkdir()
    planted.caught_by(tmp_path / "healthy")

    with planted.bug.planted(), pytest.raises(AssertionError):
        planted.caught_by(tmp_path / "broken")
