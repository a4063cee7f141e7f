"""A history is verified while others append to it, trim it and rewrite it."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline.log import Log
from strandline.testing.conformance_checks import event
from strandline.values import ProofReport
from tests.logs import file_log, memory_log, sqlite_log

ROUNDS = 40
ADDED = 50
DEADLINE_S = 60.0


def small_segments(path: str) -> Log:
    return file_log(path, segment_bytes=4096)


@pytest.fixture(params=[lambda _: memory_log(), small_segments, sqlite_log])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    opening: Callable[[str], Log] = request.param
    with opening(str(tmp_path / "log")) as log:
        yield log


@pytest.mark.slow
def test_nothing_is_found_while_others_change_the_partition(log: Log) -> None:
    log.create_topic("orders", proof=True)
    is_done = threading.Event()

    def change() -> None:
        try:
            for number in range(ROUNDS):
                log.append_many("orders", [event(each) for each in range(ADDED)])
                log.append("orders", event(number))
                if number % 3 == 0:
                    log.seal("orders")
                log.trim("orders", 0, max(0, log.marks("orders", 0).high - 2 * ADDED - 7))
        finally:
            is_done.set()

    changing = threading.Thread(target=change)
    changing.start()
    reports: list[ProofReport] = []
    while not is_done.is_set():
        head = log.proof_head("orders", 0)
        reports += log.verify("orders")
        assert head.offset <= log.marks("orders", 0).high
    changing.join(DEADLINE_S)
    reports += log.verify("orders", expected=[log.proof_head("orders", 0)])

    assert [report.findings for report in reports if not report.is_sound] == []
    assert reports[-1].end == ROUNDS * (ADDED + 1)
    assert reports[-1].start > 0
