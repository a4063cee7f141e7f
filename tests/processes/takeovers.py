"""A writer is stopped anywhere in an append, and another process takes its partition over."""

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.processes import report as reports
from tests.processes.fork_server import PATIENCE_S, Child, ForkServer
from tests.processes.ledger import Ledger
from tests.processes.report import Message
from tests.processes.stores import lock_files, url_in

CALLS_MAX = 200


class Change(NamedTuple):
    """How the partition is taken over, at what level the writer appends, how full it is."""

    by: str
    level: str = "written"
    before: int = 1


#: As many records as fill a small segment: the next append begins another.
FULL = 8

CHANGES = tuple(
    Change(by, level, before)
    for by in ("taking over", "removing the lock", "removing the lock, and a newcomer")
    for level in ("written", "durable")
    for before in (1, FULL)
)


def sweep(
    server: ForkServer,
    change: Change,
    *,
    first: int = 1,
    stride: int = 1,
    bug: str | None = None,
) -> int:
    """Stop the writer before every `stride`-th I/O call; return how many those were.

    It continues once another process has the partition, and must get the true outcome: what is
    reported as stored is there, and what is reported as not stored is not.
    """
    for number, nth in enumerate(range(first, CALLS_MAX, stride)):
        if not take_over_at(server, change, nth, bug=bug):
            return number
    raise AssertionError("the append never came to its end")


def take_over_at(server: ForkServer, change: Change, nth: int, *, bug: str | None = None) -> bool:
    """Stop the writer before the `nth` call; return whether there was one."""
    with tempfile.TemporaryDirectory() as folder:
        url = url_in("file", Path(folder, "log"))
        ledger = Ledger()
        where = f"{change}, stopped before call {nth}"
        server.run("workloads:create", url=url)
        writer = server.start(
            "concurrent_writers:stop_at",
            bug=bug,
            url=url,
            producer="old",
            nth=nth,
            level=change.level,
            before=change.before,
        )
        _wait_for_stop(writer, ledger)
        other = server.start(
            "concurrent_writers:append_when_awake", bug=bug, url=url, producer="other"
        )
        _wait_for_stop(other, ledger)
        writer.signal(signal.SIGCONT)
        is_stopped = _wait_for_stop(writer, ledger)
        if is_stopped:
            _take_over(server, ledger, url, change, where=where, bug=bug)
        # The other one was the last to write, and only the lock shows it that something changed.
        children = [other, writer] if change.by == "removing the lock" else [writer, other]
        for child in children:
            child.signal(signal.SIGCONT)
            for message in child.messages():
                assert message[0] != "crash", f"{where}: {message[1]}"
                reports.note(ledger, message)
            child.reap()
        _run(server, ledger, "workloads:read_back", url=url, where=where)
        return is_stopped


def _take_over(
    server: ForkServer, ledger: Ledger, url: str, change: Change, *, where: str, bug: str | None
) -> None:
    new: dict[str, Any] = {"bug": bug, "url": url, "producer": "new", "where": where}
    if change.by == "taking over":
        _run(server, ledger, "concurrent_writers:take_over", **new)
        return
    for path in lock_files(url):
        path.unlink()
    if change.by == "removing the lock, and a newcomer":
        _run(
            server,
            ledger,
            "concurrent_writers:append_some",
            following=0,
            count=2,
            timeout_s=PATIENCE_S,
            **new,
        )


HOLDERS = {
    "a writer": "concurrent_writers:stop_before_writing",
    "another taker": "concurrent_writers:own",
}
"""The process from which the partition is taken over, and the function that it runs."""


def overtake_at(server: ForkServer, holder: str, nth: int, *, bug: str | None = None) -> bool:
    """Stop the process that takes over before its `nth` call; continue the others meanwhile.

    Return whether there was such a call. Each process gets the true outcome.
    """
    with tempfile.TemporaryDirectory() as folder:
        url = url_in("file", Path(folder, "log"))
        ledger = Ledger()
        where = f"taking over, stopped before call {nth} for {holder}"
        server.run("workloads:create", url=url)
        owner = server.start(HOLDERS[holder], bug=bug, url=url, producer="owner")
        _wait_for_stop(owner, ledger)
        taker = server.start(
            "concurrent_writers:stop_while_taking_over", bug=bug, url=url, producer="taker", nth=nth
        )
        is_stopped = _wait_for_stop(taker, ledger)
        if is_stopped and holder == "a writer":
            _finish(owner, ledger, where)
        elif is_stopped:
            _run(
                server,
                ledger,
                "concurrent_writers:take_over",
                where=where,
                bug=bug,
                url=url,
                producer="new",
            )
        _finish(taker, ledger, where)
        if owner.status is None:
            _finish(owner, ledger, where)
        _run(server, ledger, "workloads:read_back", url=url, where=where)
        return is_stopped


def own_until_fenced(server: ForkServer, url: str, *, bug: str | None = None) -> list[Message]:
    """Have an owner, a refused writer and one that takes over; return what these two report.

    A refusal is followed by the holder, if that is known.
    """
    ledger = Ledger()
    server.run("workloads:create", url=url)
    owner = server.start("concurrent_writers:own", bug=bug, url=url, producer="owner")
    assert _wait_for_stop(owner, ledger)
    arguments: dict[str, Any] = {
        "url": url,
        "producer": "guest",
        "following": 0,
        "count": 1,
        "timeout_s": 0.1,
    }
    refusals = _run(server, ledger, "concurrent_writers:append_some", **arguments)
    _run(server, ledger, "concurrent_writers:take_over", url=url, producer="new")
    for message in _to_its_end(owner):
        reports.note(ledger, message)
        refusals.append(message)
    refusals.append(["owner", owner.pid])
    _run(server, ledger, "workloads:read_back", url=url)
    return [message for message in refusals if message[0] in {"refused", "ack", "held by", "owner"}]


def _run(
    server: ForkServer, ledger: Ledger, task: str, *, where: str = "", **arguments: Any
) -> list[Message]:
    messages = server.run(task, **arguments)
    for message in messages:
        if message[0] == "contents":
            reports.check(ledger, message, where)
        else:
            reports.note(ledger, message)
    return messages


def _finish(child: Child, ledger: Ledger, where: str) -> None:
    for message in _to_its_end(child):
        assert message[0] != "crash", f"{where}: {message[1]}"
        reports.note(ledger, message)


def _to_its_end(child: Child) -> Iterator[Message]:
    """Continue it whenever it stops, and yield what it reports."""
    child.signal(signal.SIGCONT)
    for message in child.messages():
        yield message
        if message[0] == "stopping":
            child.wait_until_stopped()
            child.signal(signal.SIGCONT)
    child.reap()


def _wait_for_stop(child: Child, ledger: Ledger) -> bool:
    for message in child.messages():
        assert message[0] != "crash", message[1]
        reports.note(ledger, message)
        if message[0] == "stopping":
            child.wait_until_stopped()
            return True
        if message[0] == "over":
            return False
    return False
