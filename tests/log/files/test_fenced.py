"""A writer whose partition a newer one has taken over gets ClosedError, now and later."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

import strandline as sl
from strandline.io import SystemIo
from strandline.io.files import Buffer
from strandline.log import Log, receipts
from strandline.stores.files import fencing, lane
from tests.logs import file_log

EVENT = sl.Event("sale", {"n": 1})
CALLS: dict[str, Callable[[Log], object]] = {
    "append": lambda log: log.append("t", EVENT),
    "durable": lambda log: log.append("t", EVENT, durability=sl.Durability.DURABLE),
    "append_many": lambda log: log.append_many("t", [EVENT, EVENT]),
    "trim": lambda log: log.trim("t", 0, 1),
    "evict": lambda log: log.evict("t", 0, 1),
    "seal": lambda log: log.seal("t"),
    "on_loop": lambda log: asyncio.run(_appended(log)),
}


async def _appended(log: Log) -> object:
    return await log.append("t", EVENT)


class Interrupted(SystemIo):
    """Calls `meanwhile` once, right before the next write."""

    meanwhile: Callable[[], object] | None = None

    def pwrite(self, fd: int, data: Buffer, offset: int, /) -> None:
        called, self.meanwhile = self.meanwhile, None
        if called is not None:
            called()
        super().pwrite(fd, data, offset)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "log")


def owner(path: str, io: SystemIo | None = None) -> Log:
    log = file_log(path, exclusive=True, io=io)
    log.create_topic("t")
    log.append("t", EVENT, durability=sl.Durability.DURABLE)
    return log


def newer(path: str) -> Log:
    log = file_log(path, exclusive=True, take_over=True, lock_timeout_s=0.01)
    log.append("t", EVENT)
    return log


@pytest.fixture
def fenced(path: str) -> Iterator[Log]:
    with owner(path) as log, newer(path):
        yield log


@pytest.mark.parametrize("name", CALLS)
def test_each_call_of_a_fenced_writer_says_that_a_newer_one_fenced_it(
    name: str, fenced: Log
) -> None:
    for _ in range(3):
        with pytest.raises(sl.ClosedError, match="newer writer") as caught:
            CALLS[name](fenced)

        assert caught.value.fields == {"topic": "t", "partition": 0}


def test_a_fenced_writer_still_reads_and_closes(fenced: Log) -> None:
    with pytest.raises(sl.ClosedError):
        fenced.append("t", EVENT)

    assert [record.offset for record in fenced.read("t", 0, 0)] == [0, 1]
    fenced.close()


def test_a_writer_stays_fenced_after_the_newer_one_has_left(path: str) -> None:
    with owner(path) as log:
        newer(path).close()

        for call in CALLS.values():
            with pytest.raises(sl.ClosedError, match="newer writer"):
                call(log)


@pytest.mark.parametrize("name", CALLS)
def test_a_write_that_was_on_its_way_is_unknown_and_what_follows_is_closed(
    name: str, path: str
) -> None:
    io, taken = Interrupted(), list[Log]()
    with owner(path, io) as log:
        io.meanwhile = lambda: taken.append(newer(path))
        with pytest.raises(sl.UnknownError):
            log.append("t", EVENT)
        taken[0].close()

        for _ in range(2):
            with pytest.raises(sl.ClosedError, match="newer writer"):
                CALLS[name](log)


def test_a_writer_that_shares_continues_after_a_take_over(path: str) -> None:
    with file_log(path) as log:
        log.create_topic("t")
        log.append("t", EVENT)
        newer(path).close()

        assert log.append("t", EVENT).offset == 2


def test_the_check_sees_a_writer_that_gets_a_failure(fenced: Log) -> None:
    with (
        mock.patch.object(lane, "fenced", return_value=None),
        mock.patch.object(receipts, "_fenced", return_value=None),
        pytest.raises(sl.FailedError) as caught,
    ):
        fenced.append("t", EVENT)

    assert isinstance(caught.value.cause, fencing.FencedError)
