"""A process that is stopped while it holds the lock, and what others see meanwhile."""

import signal

from tests.processes import report as reports
from tests.processes.fork_server import PATIENCE_S, Child, ForkServer
from tests.processes.ledger import Ledger
from tests.processes.report import Message
from tests.processes.stores import lock_files

DEADLINE_S = 0.2


def check_stopped_holder(server: ForkServer, url: str, *, bug: str | None = None) -> None:
    """Raise AssertionError unless others are refused in time, with the holder named."""
    server.run("workloads:create", url=url)
    holder, messages = _stopped(server, url, bug)

    told = server.run(
        "concurrent_writers:append_some",
        bug=bug,
        url=url,
        producer="other",
        following=0,
        count=2,
        timeout_s=DEADLINE_S,
    )
    refusals = [message[4] for message in told if message[0] == "refused"]
    holders = [message[1] for message in told if message[0] == "held by"]

    messages += told + _awake(holder)
    assert refusals == ["UnavailableError"] * 2, told
    assert holders == [holder.pid] * 2, told
    _finish(server, url, messages, acknowledged=2)


def check_removed_lock(server: ForkServer, url: str, *, bug: str | None = None) -> None:
    """Raise AssertionError if a record is lost or doubled when the lock file is removed."""
    server.run("workloads:create", url=url)
    holder, messages = _stopped(server, url, bug)
    removed = lock_files(url)
    assert removed
    for path in removed:
        path.unlink()

    messages += server.run(
        "concurrent_writers:append_some",
        bug=bug,
        url=url,
        producer="other",
        following=0,
        count=2,
        timeout_s=PATIENCE_S,
    )

    _finish(server, url, messages + _awake(holder), acknowledged=3)


def _stopped(server: ForkServer, url: str, bug: str | None) -> tuple[Child, list[Message]]:
    holder = server.start(
        "concurrent_writers:stop_while_holding", bug=bug, url=url, producer="holder"
    )
    messages = []
    for message in holder.messages():
        messages.append(message)
        if message[0] == "stopping":
            holder.wait_until_stopped()
            return holder, messages
    raise AssertionError(f"it never took the lock: {messages}")


def _awake(holder: Child) -> list[Message]:
    holder.signal(signal.SIGCONT)
    messages = list(holder.messages())
    holder.reap()
    assert any(message[0] == "awake" for message in messages), messages
    return messages


def _finish(server: ForkServer, url: str, messages: list[Message], *, acknowledged: int) -> None:
    ledger = Ledger()
    for message in messages:
        reports.note(ledger, message)
    assert len(ledger.places) >= acknowledged, messages
    for message in server.run("workloads:read_back", url=url):
        if message[0] == "contents":
            reports.check(ledger, message, url)
        else:
            reports.note(ledger, message)
