"""Readers that join, leave and change their partitions while others append: a few seeds."""

import asyncio
import random
from collections.abc import Iterator

import pytest

from strandline.subscriptions import AsyncSubscription, subscribe
from tests.subscriptions import joining
from tests.subscriptions.doubles import PATIENCE_S
from tests.subscriptions.joining import (
    check_consecutive,
    crowded_log,
    ends_of,
    finish,
    reading,
    start_appenders,
    starts_of,
)
from tests.threads import on_thread

#: The rest of them is in torture.
SEEDS = range(3)


@pytest.fixture(autouse=True)
def eager_threads() -> Iterator[None]:
    with joining.eager_threads():
        yield


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_readers_that_join_at_any_moment_lose_and_repeat_nothing(seed: int) -> None:
    """TE5, WE6: three appenders, six readers, hints that are lost, repeated and late."""
    joining.join_at_any_moment(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_any_mix_of_add_remove_and_publish_stays_consecutive(seed: int) -> None:
    """TA15: each generation strictly consecutive from its start, and nothing after a remove."""
    joining.mix_changes(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_assignment_changed_from_another_thread_stays_consecutive(seed: int) -> None:
    """TA15: remove hands over to add; no record is lost between or comes twice."""
    joining.hand_over(seed)


def test_cancelled_and_abandoned_readers_are_harmless() -> None:
    """S5: most readers are cancelled at a random moment; the one that stays gets everything."""
    log = crowded_log(0)
    appenders = start_appenders(log, 0)
    steady = subscribe(log, "orders", read_ahead=8)
    starts = starts_of(steady)
    reader = on_thread(reading(steady, on_loop=False))

    async def cancel_many() -> None:
        rng = random.Random(0)
        for _ in range(50):
            with subscribe(log, "orders", read_ahead=2) as subscription:
                step = asyncio.ensure_future(anext(AsyncSubscription(subscription)))
                for _ in range(rng.randrange(4)):
                    await asyncio.sleep(0)
                step.cancel()
                await asyncio.wait([step])

    asyncio.run(cancel_many())
    finish(log, appenders)

    check_consecutive(reader.result(PATIENCE_S), starts, ends_of(log), 0)
