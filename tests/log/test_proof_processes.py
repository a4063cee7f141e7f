"""Several processes extend one chain, whichever of them crashes."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline as sl
from strandline.stores.files import proving
from tests.logs import file_log
from tests.planting import Bug

pytestmark = pytest.mark.slow

APPENDER = str(Path(__file__).with_name("proof_appender.py"))
DEADLINE_S = 60.0


class Appender:
    """A process that appends on request."""

    def __init__(self, url: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, APPENDER, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def notify(self, count: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()

    def answer(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def append(self, count: int) -> int:
        """Append so many, and return the offset of the last."""
        self.notify(count)
        return self.answer()


@contextlib.contextmanager
def appender(url: str) -> Iterator[Appender]:
    started = Appender(url)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.communicate(timeout=DEADLINE_S)


@pytest.fixture(params=["file", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    url = f"{request.param}:{tmp_path / 'log'}"
    with sl.open(url) as log:
        log.create_topic("orders", proof=True)
    return url


def check(url: str, end: int, *expected: sl.ProofHead) -> sl.ProofHead:
    """Check the history up to `end` at least, and return its head."""
    with sl.open(url, mode="read") as log:
        (report,) = log.verify("orders", expected=expected)
    assert report.is_sound, report.findings
    assert report.records == report.end >= end
    assert report.head is not None
    return report.head


def test_processes_that_take_turns_keep_one_chain(url: str) -> None:
    take_turns(url)


def test_a_process_that_misses_the_others_is_noticed(tmp_path: Path) -> None:
    url = f"file:{tmp_path / 'log'}"
    with sl.open(url) as log:
        log.create_topic("orders", proof=True)
    right = "end.next == old.next == next_offset"
    bug = Bug("the chain is ours alone", proving, "value_at", right, "True")

    with bug.planted(), pytest.raises(AssertionError, match="are not what was written"):
        take_turns(url)


def take_turns(url: str) -> None:
    """Append from three processes in turn, and check the history."""
    heads, end = [], 0
    with appender(url) as first, appender(url) as second, sl.open(url) as log:
        for count in (1, 3, 100, 1, 1):
            first.append(count)
            heads.append(log.proof_head("orders", 0))
            second.append(1)
            log.append("orders", sl.Event("mine", {}))
            second.append(count)
            end = second.append(2) + 1

    check(url, end, *heads)


def test_a_chain_continues_in_the_next_segment_and_across_trims(tmp_path: Path) -> None:
    url, end = f"file:{tmp_path / 'log'}", 0
    with file_log(str(tmp_path / "log"), segment_bytes=4096) as log:
        log.create_topic("orders", proof=True)
        with appender(url) as other:
            for turn in range(1, 9):
                log.append_many("orders", [sl.Event("mine", {"n": n}) for n in range(40)])
                end = other.append(70) + 1
                log.trim("orders", 0, turn * 60)
                log.append("orders", sl.Event("mine", {}))
                (report,) = log.verify("orders")
                assert report.is_sound, report.findings
        assert len(log.segments("orders", 0)) > 1
        head = log.proof_head("orders", 0)
        log.seal("orders")

    with sl.open(url) as log:
        log.append("orders", sl.Event("mine", {}))
        (report,) = log.verify("orders", expected=[head])

    assert report.is_sound, report.findings
    assert (report.start, report.end) == (8 * 60, end + 2)


def test_a_chain_holds_after_kills(url: str) -> None:
    heads: list[sl.ProofHead] = []
    end = 0
    for turn in range(6):
        with appender(url) as victim:
            end = victim.append(2) + 1
            # Killed somewhere in the middle of these.
            for _ in range(200):
                victim.notify(1)
            for _ in range(turn * 10):
                end = victim.answer() + 1
        heads.append(check(url, end, *heads))

    assert len({head.offset for head in heads}) == len(heads)
