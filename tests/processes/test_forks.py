"""Forks: the log stays the parent's, and its locks end with the parent."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.processes import report as reports
from tests.processes.fork_server import ForkServer
from tests.processes.ledger import Ledger
from tests.processes.report import Message
from tests.processes.stores import SCHEMES, url_in

WAYS: list[tuple[str, dict[str, Any]]] = [(scheme, {}) for scheme in SCHEMES]
WAYS += [("file", {"exclusive": True})]

pytestmark = pytest.mark.parametrize(("scheme", "options"), WAYS)


@pytest.mark.slow
def test_a_child_may_do_nothing_with_the_log_and_harms_nothing(
    server: ForkServer, tmp_path: Path, scheme: str, options: dict[str, Any]
) -> None:
    url = url_in(scheme, tmp_path)
    server.run("workloads:create", url=url)

    messages = server.run("forks:fork_and_continue", url=url, options=options)

    assert ["allowed", []] in messages
    assert sum(message[0] == "ack" for message in messages) == 4
    check(server, url, messages)


def test_a_child_does_not_keep_the_lock_of_a_parent_that_crashed(
    server: ForkServer, tmp_path: Path, scheme: str, options: dict[str, Any]
) -> None:
    url = url_in(scheme, tmp_path)
    server.run("workloads:create", url=url)
    parent = server.start("forks:fork_while_holding", url=url, options=options)
    messages = []
    for message in parent.messages():
        messages.append(message)
        if message[0] == "child":
            break
    child = messages[-1][1]
    assert parent.reap() == -signal.SIGKILL
    try:
        other = server.run(
            "concurrent_writers:append_some",
            url=url,
            producer="other",
            following=0,
            count=2,
            timeout_s=5.0,
        )
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)

    assert [message[0] for message in other] == ["offer", "ack"] * 2
    check(server, url, messages + other)


def check(server: ForkServer, url: str, messages: list[Message]) -> None:
    ledger = Ledger()
    for message in messages:
        reports.note(ledger, message)
    for message in server.run("workloads:read_back", url=url):
        if message[0] == "contents":
            reports.check(ledger, message, url)
        else:
            reports.note(ledger, message)
