"""Tasks of a loop that wait for rounds of syncs."""

import asyncio
from typing import cast

from strandline.writes.rounds import LoopRounds, Rounds


class Ended:
    """The last round that has ended, which a test sets."""

    ended = 0


def test_a_task_is_woken_by_the_round_that_it_waits_for() -> None:
    async def wait() -> None:
        rounds, requested = Ended(), list[int]()
        tasks = LoopRounds(asyncio.get_running_loop(), cast("Rounds", rounds), requested.append)
        first, second = tasks.future(1), tasks.future(2)

        rounds.ended = 1
        tasks.notify()
        await first
        assert not second.done()

        tasks.end()
        await second
        assert requested == [1, 2]

    asyncio.run(wait())
