"""Appends by the core: the same files as plain Python writes, and the same outcomes."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.log import Log
from strandline.stores.files import compiled_lane
from strandline.testing import FakeClock
from strandline.values import Durability
from tests.core.plain import MOMENT, needs_core
from tests.logs import file_log

pytestmark = needs_core


def events(count: int, start: int = 0) -> list[sl.Event]:
    return [
        sl.Event(
            "order.created",
            {"n": n, "é": "x" * (n % 50)},
            key=None if n % 3 else f"k{n}",
            headers={"b": "1", "a": "é"} if n % 2 else {},
            occurred_at=MOMENT if n % 5 else None,
        )
        for n in range(start, start + count)
    ]


def lane_of(log: Log) -> Any:
    """Return the core's lane into the topic that was appended to last."""
    topics: Any = log._store.topics()  # noqa: SLF001 - Only this shows which code appended.
    return topics[0].lanes[0].store.compiled.lane


def fast(log: Log, *, core: bool = True) -> None:
    """Make sure that the next append is the core's."""
    log.append("t", sl.Event("first"))
    assert not core or lane_of(log).is_armed


@pytest.fixture(params=[False, True], ids=["shared", "exclusive"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    with sl.open(f"file:{tmp_path}/log", exclusive=request.param) as made:
        made.create_topic("t")
        yield made


def written_by(folder: Path, clock: FakeClock, *, exclusive: bool, core: bool) -> bytes:
    """Return the frames of a segment after a workload, identities left out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_lane, "IS_COMPILED", core)
        with file_log(str(folder), clock=clock, exclusive=exclusive) as log:
            log.create_topic("t")
            fast(log, core=core)
            for event in events(20):
                log.append("t", event)
            for count in (1, 2, 15, 16, 63, 64, 65, 700):
                log.append_many("t", events(count))
            assert [each.offset for each in log.read("t", 0, 0)] == list(range(947))
    (segment,) = folder.rglob("segments/*")
    return segment.read_bytes()


@pytest.mark.parametrize("exclusive", [False, True])
def test_the_frames_are_those_that_plain_python_writes(tmp_path: Path, exclusive: bool) -> None:
    ours = written_by(tmp_path / "a", FakeClock(), exclusive=exclusive, core=True)
    plain = written_by(tmp_path / "b", FakeClock(), exclusive=exclusive, core=False)

    # The identity of the log is in the header and in each checksum: those differ.
    assert len(ours) == len(plain)
    assert frames_of(ours) == frames_of(plain)


def frames_of(content: bytes) -> list[bytes]:
    """Return each frame without its checksum and that of the one before."""
    found, at = [], content.find(b"\xf5S") - 4
    while content[at + 4 : at + 6] == b"\xf5S":
        length = 40 + int.from_bytes(content[at + 12 : at + 16], "little")
        found.append(content[at + 12 : at + length])
        at += length
    return found


def test_the_core_and_python_take_turns_at_one_partition(log: Log) -> None:
    receipts = []
    for number in range(60):
        if number % 7 == 3:
            receipts.append(log.append("t", sl.Event("k", number), producer="p", sequence=number))
        elif number % 7 == 5:
            receipts.extend(log.append_many("t", [sl.Event("k", number)] * (number + 10)))
        else:
            receipts.append(log.append("t", sl.Event("k", number)))

    assert [each.offset for each in receipts] == list(range(len(receipts)))
    assert [each.offset for each in log.read("t", 0, 0)] == list(range(len(receipts)))
    assert log.append("t", sl.Event("k", 3), producer="p", sequence=3).is_repeat
    assert all(report.is_sound for report in log.verify("t"))


def test_a_durable_append_is_durable_when_it_returns(log: Log) -> None:
    fast(log)

    receipt = log.append("t", sl.Event("k"), durability="durable")
    many = log.append_many("t", events(100), durability="durable")

    assert receipt.level is Durability.DURABLE
    assert {each.level for each in many} == {Durability.DURABLE}
    assert log.marks("t", 0).durable == 102


def test_a_written_append_can_be_waited_for(log: Log) -> None:
    fast(log)

    receipt = log.append("t", sl.Event("k"))
    before = receipt.level

    assert before is Durability.WRITTEN
    assert receipt.wait(Durability.DURABLE).level is Durability.DURABLE
    assert log.marks("t", 0).durable == 2


def test_threads_lose_and_repeat_nothing(log: Log) -> None:
    fast(log)
    offsets: list[int] = []

    def work(number: int) -> None:
        for index in range(200):
            terms: Any = {"producer": f"p{number}", "sequence": index} if index % 20 == 7 else {}
            offsets.append(log.append("t", sl.Event("k", [number, index]), **terms).offset)
            if index % 50 == 9:
                log.append_many("t", [sl.Event("b", [number, index])] * 400)

    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    found = list(log.read("t", 0, 0))
    assert [each.offset for each in found] == list(range(1 + 4 * 200 + 4 * 4 * 400))
    assert len(set(offsets)) == 800
    for number in range(4):
        own = [each.payload[1] for each in found if each.kind == "k" and each.payload[0] == number]
        assert own == list(range(200))


def test_a_loop_keeps_the_order_of_its_appends(log: Log) -> None:
    fast(log)

    async def work() -> None:
        waiting = []
        for number in range(300):
            level = Durability.DURABLE if number % 3 == 0 else Durability.WRITTEN
            waiting.append(log.append("t", sl.Event("k", number), durability=level))
            if number % 50 == 0:
                await asyncio.sleep(0)
        for each in waiting:
            await each

    asyncio.run(work())

    assert [each.payload for each in log.read("t", 0, 1)] == list(range(300))


@pytest.mark.slow
def test_processes_share_a_partition(tmp_path: Path) -> None:
    url = f"file:{tmp_path}/log"
    code = (
        "import sys, strandline as sl\n"
        "log = sl.open(sys.argv[1])\n"
        "for n in range(300):\n"
        "    log.append('t', sl.Event(sys.argv[2], n))\n"
        "    if n % 100 == 50: log.append_many('t', [sl.Event(sys.argv[2], -1)] * 70)\n"
    )
    with sl.open(url) as log:
        log.create_topic("t")
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", code, url, name],
                env={**os.environ, "STRANDLINE_CORE": "off" if name == "plain" else "on"},
            )
            for name in ("one", "two", "plain")
        ]
        for number in range(300):
            log.append("t", sl.Event("own", number))
        assert [each.wait() for each in workers] == [0, 0, 0]

        found = list(log.read("t", 0, 0))
        assert [each.offset for each in found] == list(range(4 * 300 + 3 * 3 * 70))
        for name in ("own", "one", "two", "plain"):
            own = [each.payload for each in found if each.kind == name and each.payload >= 0]
            assert own == list(range(300))
        assert all(report.is_sound for report in log.verify("t"))


def test_a_reader_that_waits_is_woken(log: Log) -> None:
    fast(log)
    with log.subscribe("t", start=sl.LATEST) as subscription:
        log.append("t", sl.Event("k", 1))

        found = subscription.next(timeout_s=10)

    assert found is not None
    assert found.payload == 1


def test_a_child_of_a_fork_gets_closed_error(log: Log) -> None:
    fast(log)
    child = os.fork()
    if child == 0:
        try:
            log.append("t", sl.Event("k"))
        except sl.ClosedError:
            os._exit(7)
        os._exit(1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert log.append("t", sl.Event("k")).offset == 1


def test_a_topic_that_was_dropped_is_not_written_to(log: Log) -> None:
    fast(log)
    log.drop_topic("t")

    with pytest.raises(sl.StrandlineError, match="topic"):
        log.append("t", sl.Event("k"))


def test_a_record_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with sl.open(f"file:{tmp_path}/log", record_bytes_max=100) as log:
        log.create_topic("t")
        fast(log)
        for call in (log.append, lambda topic, event: log.append_many(topic, [event])):
            with pytest.raises(sl.InvalidError, match="too large"):
                call("t", sl.Event("k", "x" * 200))


def test_another_writer_that_takes_over_fences_the_core(tmp_path: Path) -> None:
    path = f"{tmp_path}/log"
    with file_log(path, exclusive=True, clock=FakeClock()) as old:
        old.create_topic("t")
        fast(old)
        with file_log(path, exclusive=True, take_over=True, lock_timeout_s=0.01) as new:
            new.append("t", sl.Event("new"))

            # Time stands still: Python does not look, and the core finds the fence.
            with pytest.raises(sl.UnknownError):
                old.append("t", sl.Event("old"))
            with pytest.raises(sl.ClosedError):
                old.append("t", sl.Event("old"))

            assert [each.kind for each in new.read("t", 0, 0)] == ["first", "new"]
