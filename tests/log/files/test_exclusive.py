"""A partition that one log object holds exclusively, and another log object of the process."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import strandline as sl
from strandline.log import Log
from tests.logs import file_log

HELD = "another log object of this process holds the partition"
EVENT = sl.Event("made")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "log")


@pytest.fixture
def owner(path: str) -> Iterator[Log]:
    with file_log(path, exclusive=True) as log:
        log.create_topic("orders", partitions=2)
        log.append_many("orders", [EVENT] * 3, partition=0)
        yield log


CALLS: dict[str, Callable[[Log], object]] = {
    "append": lambda log: log.append("orders", EVENT, partition=0),
    "durable": lambda log: log.append("orders", EVENT, partition=0, durability="durable"),
    "many": lambda log: log.append_many("orders", [EVENT] * 3, partition=0),
    "trim": lambda log: log.trim("orders", 0, 1),
}


@pytest.mark.usefixtures("owner")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("exclusive", [False, True])
def test_what_cannot_come_free_is_not_waited_for(path: str, call: str, *, exclusive: bool) -> None:
    # As long as that, where it is waited for.
    with file_log(path, exclusive=exclusive, lock_timeout_s=3_600.0) as other:
        with pytest.raises(sl.UnavailableError, match=HELD) as caught:
            CALLS[call](other)

        assert (caught.value.fields["topic"], caught.value.fields["partition"]) == ("orders", 0)
        assert other.append("orders", EVENT, partition=1).offset == 0


@pytest.mark.usefixtures("owner")
def test_an_append_on_a_loop_gets_the_same(path: str) -> None:
    async def append() -> None:
        async with sl.open(f"file:{path}") as other:
            await other.append("orders", EVENT, partition=0, timeout_s=0.05)

    with pytest.raises(sl.UnavailableError, match=HELD):
        asyncio.run(append())


def test_the_other_appends_once_the_owner_is_closed(owner: Log, path: str) -> None:
    with file_log(path) as other:
        with pytest.raises(sl.UnavailableError, match=HELD):
            other.append("orders", EVENT, partition=0)
        owner.close()

        assert other.append("orders", EVENT, partition=0).offset == 3
