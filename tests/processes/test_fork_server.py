"""The fork server starts children that report, and reports how each one ended."""

import signal
from pathlib import Path

import pytest

from tests.processes.fork_server import ForkServer, HangError
from tests.processes.report import crash_of
from tests.processes.stores import url_in


def test_a_child_reports_and_ends(server: ForkServer, tmp_path: Path) -> None:
    assert server.run("workloads:create", url=url_in("sqlite", tmp_path)) == [["done"]]


def test_a_child_that_fails_says_why(server: ForkServer) -> None:
    child = server.start("workloads:create", url="nothing:at all")
    messages = list(child.messages())

    assert "no store for nothing:at all" in str(crash_of(messages))
    assert child.reap() != 0


def test_a_killed_child_has_reported_what_was_acknowledged_before(
    server: ForkServer, tmp_path: Path
) -> None:
    url = url_in("sqlite", tmp_path)
    server.run("workloads:create", url=url)
    child = server.start(
        "workloads:run_workload", url=url, producer="p", following=0, seed=0, retry=None
    )
    kinds = []
    for message in child.messages():
        kinds.append(message[0])
        if kinds.count("ack") == 3:
            break
    kinds += [message[0] for message in child.kill()]

    assert child.reap() == -signal.SIGKILL
    assert kinds[0] == "contents"
    assert kinds.count("offer") - kinds.count("ack") in {0, 1}


def test_a_failed_task_raises_where_it_is_run(server: ForkServer) -> None:
    with pytest.raises(AssertionError, match="no store for"):
        server.run("workloads:create", url="nothing:at all")


@pytest.mark.slow
def test_a_child_that_hangs_is_shown_with_its_stacks(server: ForkServer) -> None:
    child = server.start("workloads:hang")
    try:
        with pytest.raises(HangError, match=r"(?s)state=S.*in hang"):
            list(child.messages(busy_timeout_s=0.5))
    finally:
        child.kill()


@pytest.mark.slow
def test_a_stopped_child_is_reported_from_one_that_sleeps(server: ForkServer) -> None:
    child = server.start("workloads:hang")
    child.signal(signal.SIGSTOP)
    child.wait_until_stopped()
    try:
        with pytest.raises(HangError, match="state=T"):
            list(child.messages(busy_timeout_s=0.1))
    finally:
        child.kill()
