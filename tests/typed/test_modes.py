"""Scopes of logs that are open for less than writing, and on an event loop."""

import asyncio
from pathlib import Path

import pytest

import strandline as sl
from tests.typed.rows import SCHEMA, ids, rows

WIDER = SCHEMA.append(SCHEMA.field("value").with_name("more"))


@pytest.fixture(params=["file", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where there is a log with a typed topic."""
    location = f"{request.param}:{tmp_path / 'events'}"
    with sl.open(location) as log:
        scope = log.scope("alice")
        scope.register("orders", SCHEMA)
        scope.publish("orders", rows(1))
    return location


def test_a_log_that_is_read_shows_what_there_is_and_takes_nothing(url: str) -> None:
    with sl.open(url, mode="read") as log:
        scope = log.scope("alice")

        assert ids(scope.replay("orders", 0)) == [1]
        assert scope.topic("orders").versions == (SCHEMA,)
        for act in (
            lambda: scope.publish("orders", rows(2)),
            lambda: scope.register("prices", SCHEMA),
            lambda: scope.evolve("orders", WIDER),
            lambda: scope.drop(scope.topic("orders").id),
        ):
            with pytest.raises(sl.InvalidError, match="mode"):
                act()


def test_a_log_that_is_consumed_acks_and_changes_no_schema(url: str) -> None:
    with sl.open(url, mode="consume") as log:
        scope = log.scope("alice")
        with scope.subscribe("orders", start=0, consumer="billing") as subscription:
            assert subscription.ack(next(subscription)) == 1

        with pytest.raises(sl.InvalidError, match="mode"):
            scope.evolve("orders", WIDER)
        assert scope.topic("orders").versions == (SCHEMA,)


def test_a_loop_publishes_and_follows(url: str) -> None:
    async def work() -> list[int]:
        async with sl.open(url) as log:
            scope = log.scope("alice")
            subscription = await scope.subscribe("orders", start=0)
            receipt = await scope.publish("orders", rows(2))
            assert receipt.offset == 1
            found = [await subscription.next(20.0) for _ in range(2)]
            return ids(each for each in found if each is not None)

    assert asyncio.run(work()) == [1, 2]
