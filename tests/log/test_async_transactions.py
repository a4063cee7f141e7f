"""Transactions on an event loop: one thread for each block, and the rules of any other."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline as sl
from strandline.log.async_transaction import AsyncConnection
from strandline.log.off_loop import in_thread
from tests.log.test_async_log import PATIENCE_S, event, numbers, run


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "shop.db")


@pytest.fixture
def log(path: str) -> Iterator[sl.Log]:
    with sl.open(f"sqlite:{path}") as opened:
        opened.create_topic("orders")
        with opened.transaction() as connection:
            connection.execute("CREATE TABLE orders (n INTEGER)")
        yield opened


def rows(path: str) -> list[int]:
    with sqlite3.connect(path) as connection:
        return [n for (n,) in connection.execute("SELECT n FROM orders ORDER BY n")]


def test_rows_and_records_are_committed_together(log: sl.Log, path: str) -> None:
    async def scenario() -> None:
        face = sl.AsyncLog(log)
        async with face.transaction() as connection:
            cursor = await connection.execute("INSERT INTO orders VALUES (?)", (1,))
            assert cursor.rowcount == 1
            await connection.executemany("INSERT INTO orders VALUES (?)", [(2,), (3,)])
            receipt = await face.append("orders", event(1))
            many = await face.append_many("orders", [event(2), event(3)])
            assert (receipt.offset, [(await each).offset for each in many]) == (0, [1, 2])
            assert await (await connection.execute("SELECT max(n) FROM orders")).fetchone() == (3,)
            assert numbers(log) == []
        assert (await receipt.wait(sl.Durability.DURABLE)).level is sl.Durability.DURABLE

    run(scenario())

    assert (rows(path), numbers(log)) == ([1, 2, 3], [1, 2, 3])


def test_a_block_that_raises_is_rolled_back(log: sl.Log, path: str) -> None:
    async def scenario() -> None:
        face = sl.AsyncLog(log)
        receipts = []

        async def fail() -> None:
            async with face.transaction() as connection:
                await connection.execute("INSERT INTO orders VALUES (1)")
                receipts.append(await face.append("orders", event(1)))
                raise KeyError

        with pytest.raises(KeyError):
            await fail()
        with pytest.raises(sl.InvalidError, match="nothing of it is stored"):
            await receipts[0]

    run(scenario())

    assert (rows(path), numbers(log)) == ([], [])


def test_the_rules_of_a_block_hold_on_a_loop(log: sl.Log) -> None:
    async def scenario() -> None:
        face = sl.AsyncLog(log)
        async with face.transaction():
            receipt = await face.append("orders", event(1))
            with pytest.raises(sl.InvalidError, match="transaction"):
                await face.create_topic("more")
            with pytest.raises(sl.InvalidError, match="transaction"):
                async with face.transaction():
                    pass
            with pytest.raises(sl.InvalidError, match="after that"):
                await receipt.wait(sl.Durability.DURABLE)
        await face.create_topic("more")

    run(scenario())

    assert numbers(log) == [1]


def test_appends_that_are_not_awaited_are_part_of_their_block(log: sl.Log) -> None:
    async def scenario() -> None:
        face = sl.AsyncLog(log)
        async with face.transaction():
            for number in range(5):
                face.append("orders", event(number))
        assert numbers(log) == list(range(5))

        async def fail() -> None:
            async with face.transaction():
                face.append("orders", event(9))
                raise KeyError

        with pytest.raises(KeyError):
            await fail()

    run(scenario())

    assert numbers(log) == list(range(5))


def test_tasks_of_a_block_are_part_of_it_and_others_wait_for_it(log: sl.Log) -> None:
    async def scenario() -> None:
        face = sl.AsyncLog(log)
        go_on = asyncio.Event()

        async def outside() -> int:
            await go_on.wait()
            return (await face.append("orders", event(9))).offset

        other = asyncio.create_task(outside())
        await face.marks("orders", 0)
        async with face.transaction():
            async with asyncio.TaskGroup() as group:
                inside = [group.create_task(_append(face, n)) for n in range(3)]
            go_on.set()
            await asyncio.sleep(0)
            assert not other.done()
            assert sorted(task.result() for task in inside) == [0, 1, 2]
        assert await other == 3

    run(scenario())


async def _append(face: sl.AsyncLog, number: int) -> int:
    return (await face.append("orders", event(number))).offset


def test_blocks_of_many_tasks_come_one_after_the_other(log: sl.Log, path: str) -> None:
    async def scenario() -> None:
        face = sl.AsyncLog(log)

        async def work(number: int) -> None:
            async with face.transaction() as connection:
                await connection.execute("INSERT INTO orders VALUES (?)", (number,))
                await face.append("orders", event(number))

        await asyncio.gather(*map(work, range(8)))

    run(scenario())

    assert rows(path) == sorted(numbers(log)) == list(range(8))


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 20])
def test_a_block_that_is_cancelled_anywhere_leaves_no_lock(
    log: sl.Log, path: str, turns: int
) -> None:
    async def scenario() -> None:
        face = sl.AsyncLog(log)

        async def work() -> None:
            async with face.transaction() as connection:
                await connection.execute("INSERT INTO orders VALUES (1)")
                await face.append("orders", event(1))

        task = asyncio.create_task(work())
        for _ in range(turns):
            await asyncio.sleep(0.0005)
        task.cancel()
        await asyncio.wait([task])
        async with face.transaction() as connection:
            await connection.execute("INSERT INTO orders VALUES (2)")
            await face.append("orders", event(2))

    run(scenario())

    assert rows(path) == numbers(log)
    assert rows(path) in ([2], [1, 2])


def test_a_block_that_is_cancelled_while_it_waits_to_enter_never_enters(
    log: sl.Log, path: str
) -> None:
    has_entered, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with log.transaction() as connection:
            connection.execute("INSERT INTO orders VALUES (1)")
            has_entered.set()
            assert may_end.wait(PATIENCE_S)

    async def scenario() -> None:
        face = sl.AsyncLog(log)
        holding = asyncio.ensure_future(in_thread(hold))
        assert await in_thread(has_entered.wait, PATIENCE_S)

        async def work() -> None:
            async with face.transaction() as connection:
                await connection.execute("INSERT INTO orders VALUES (2)")

        task = asyncio.create_task(work())
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        may_end.set()
        await holding
        async with face.transaction() as connection:
            await connection.execute("INSERT INTO orders VALUES (3)")

    run(scenario())

    assert rows(path) == [1, 3]


def test_a_function_runs_in_the_thread_of_its_block(log: sl.Log, path: str) -> None:
    def work(connection: sqlite3.Connection, number: int) -> int:
        connection.execute("INSERT INTO orders VALUES (?)", (number,))
        return log.append("orders", event(number)).offset

    async def scenario() -> int:
        async with sl.AsyncLog(log).transaction() as connection:
            return await connection.run(work, number=5)

    assert run(scenario()) == 0
    assert (rows(path), numbers(log)) == ([5], [5])


def test_a_block_inside_that_of_another_log_shares_its_thread(
    log: sl.Log, path: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with sl.open(f"sqlite:{tmp_path / 'other.db'}") as other:
            await other.create_topic("orders")
            face = sl.AsyncLog(log)
            async with face.transaction() as connection, other.transaction():
                await connection.execute("INSERT INTO orders VALUES (1)")
                await face.append("orders", event(1))
                await other.append("orders", event(2))
            assert numbers(other.blocking) == [2]

    run(scenario())

    assert (rows(path), numbers(log)) == ([1], [1])


def test_a_log_without_transactions_reports_it() -> None:
    async def scenario() -> None:
        async with sl.open("memory:") as log:
            with pytest.raises(sl.InvalidError, match="sqlite:"):
                async with log.transaction():
                    pass

    run(scenario())


def test_a_function_runs_in_the_thread_of_the_block_from_any_task(log: sl.Log) -> None:
    async def scenario() -> None:
        begun: asyncio.Future[AsyncConnection] = asyncio.get_running_loop().create_future()

        async def thread_of_the_block() -> int:
            connection = await begun
            return await connection.run(lambda _: threading.get_ident())

        # It began outside of the block.
        task = asyncio.create_task(thread_of_the_block())
        async with sl.AsyncLog(log).transaction() as connection:
            own = await connection.run(lambda _: threading.get_ident())
            begun.set_result(connection)
            assert await task == own

    run(scenario())


def test_the_connection_itself_is_there_for_functions_that_run_in_the_block(
    log: sl.Log, path: str
) -> None:
    async def scenario() -> None:
        async with sl.AsyncLog(log).transaction() as connection:

            def insert(given: sqlite3.Connection) -> None:
                assert connection.blocking is given
                connection.blocking.execute("INSERT INTO orders VALUES (4)")

            await connection.run(insert)

    run(scenario())

    assert rows(path) == [4]
