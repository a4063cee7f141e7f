"""Tasks of a loop that wait at the end of a partition share its notices."""

import asyncio
import os
from collections.abc import Iterator
from typing import Any, cast

import pytest

from strandline.log.follower import PartitionFollower
from strandline.log.loop_tail import LoopTail, loop_tail
from strandline.writes.waiter import LoopWaiter

PATIENCE_S = 20.0


class Notices:
    """A watch of a tail whose notices a test makes."""

    def __init__(self) -> None:
        self._reads, self._writes = os.pipe()
        self.looked_again = asyncio.Event()
        self.ended: list[int] = []

    def make(self) -> None:
        os.write(self._writes, b"!")

    def begin_loop(self) -> tuple[int, int]:
        return 7, self._reads

    def look_on_loop(self, number: int) -> tuple[bool, bool]:
        del number
        os.read(self._reads, 1)
        return True, True

    def look_again_on_loop(self, number: int) -> tuple[bool, bool]:
        del number
        self.looked_again.set()
        return False, False

    def end_loop(self, number: int) -> None:
        self.ended.append(number)

    def close(self) -> None:
        os.close(self._reads)
        os.close(self._writes)


@pytest.fixture
def notices() -> Iterator[Notices]:
    made = Notices()
    yield made
    made.close()


def joined(notices: Notices) -> LoopTail:
    class Follower:
        watch: Any = notices

    tail = loop_tail(cast("PartitionFollower", Follower()))
    assert tail is not None
    return tail


def test_each_notice_is_followed_by_a_second_look(notices: Notices) -> None:
    async def look() -> None:
        tail = joined(notices)
        for _ in range(3):
            notices.looked_again.clear()
            notices.make()
            async with asyncio.timeout(PATIENCE_S):
                await notices.looked_again.wait()
        tail.leave()
        await asyncio.sleep(0)

    asyncio.run(look())


def test_the_last_that_leaves_ends_it_and_the_next_begins_again(notices: Notices) -> None:
    async def come_and_go() -> None:
        tail, same = joined(notices), joined(notices)
        assert tail is same

        tail.leave()
        await asyncio.sleep(0)
        assert tail.is_of_running_loop()
        same.leave()
        await asyncio.sleep(0)

        assert not tail.is_of_running_loop()
        assert notices.ended == [7]
        again = joined(notices)
        assert again is not tail
        again.leave()
        await asyncio.sleep(0)

    asyncio.run(come_and_go())


def test_waits_end_in_time_in_whatever_order_they_began(notices: Notices) -> None:
    ended: list[float] = []

    async def wait(tail: LoopTail, timeout_s: float) -> None:
        waiter = LoopWaiter()
        tail.enter(waiter)
        tail.end_in(waiter, timeout_s)
        await waiter.wait()
        tail.exit(waiter)
        ended.append(timeout_s)

    async def wait_for_all() -> None:
        tail = joined(notices)
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            for timeout_s in (0.03, 0.01, 0.02, 0.04):
                group.create_task(wait(tail, timeout_s))
        tail.leave()
        await asyncio.sleep(0)

    asyncio.run(wait_for_all())

    assert ended == [0.01, 0.02, 0.03, 0.04]
