"""The loop that runs in a thread: the one that asyncio knows, and none where it knows none."""

import asyncio
import os

import pytest

from strandline.values import InvalidError
from strandline.writes.loops import check_on_asyncio, running_loop
from tests.writes.doubles import Call


async def both() -> tuple[object, object]:
    """Ask twice: the second answer is one that was kept."""
    return running_loop(), running_loop()


def test_the_loop_that_runs_is_returned_each_time_it_runs() -> None:
    with asyncio.Runner() as one, asyncio.Runner() as other:
        for runner in (one, other, one, one, other):
            loop = runner.get_loop()

            assert runner.run(both()) == (loop, loop)
            assert running_loop() is None


def test_none_is_returned_once_a_loop_has_ended() -> None:
    asyncio.run(both())

    assert running_loop() is None
    with pytest.raises(InvalidError, match="needs a running asyncio event loop"):
        check_on_asyncio()


def test_none_is_returned_in_another_thread_while_a_loop_runs() -> None:
    async def main() -> tuple[object, object]:
        await both()
        there = await asyncio.to_thread(running_loop)
        return there, running_loop()

    there, here = asyncio.run(main())

    assert there is None
    assert here is not None


def test_each_thread_has_its_own_loop() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(20):
            assert await both() == (loop, loop)
            await asyncio.sleep(0)

    for each in [Call(lambda: asyncio.run(main())) for _ in range(4)]:
        each.result()


def ask_in_child() -> int:
    """Fork, and return 0 if the child finds no loop, in the thread that has one here."""
    child = os.fork()
    if child == 0:
        found: object = "an error"
        try:
            found = running_loop()
        finally:
            os._exit(found is not None)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# Python warns of what this test is about.
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_no_loop_runs_in_the_child_of_a_fork() -> None:
    async def main() -> int:
        await both()
        return ask_in_child()

    assert asyncio.run(main()) == 0
