"""Readers that join at any moment while processes append, and consumers that are killed."""

import random
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from tests.processes import report as reports
from tests.processes.fork_server import Child, ForkServer
from tests.processes.joining_readers import Given
from tests.processes.ledger import Ledger
from tests.processes.report import Message
from tests.processes.stores import url_in

JOINS_PER_LOG = 20
WRITERS = 2
DELIVERIES = 40
PATIENCE_S = 20.0


def run(server: ForkServer, scheme: str, seed: int, *, bug: str | None = None) -> int:
    """Have JOINS_PER_LOG readers join one log under load; return how many did."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        url = url_in(scheme, Path(folder, "log"))
        server.run("workloads:create", url=url)
        where = f"{scheme}: seed={seed}"
        writers = [
            server.start(
                "joining_readers:write",
                bug=bug,
                url=url,
                producer=f"w{number}",
                seed=rng.getrandbits(32),
            )
            for number in range(WRITERS)
        ]
        joiners = [
            server.start(
                "joining_readers:join",
                bug=bug,
                url=url,
                seed=rng.getrandbits(32),
                count=JOINS_PER_LOG // 2,
            )
            for _ in range(2)
        ]
        try:
            for joiner in joiners:
                _wait_for_joins(joiner, JOINS_PER_LOG // 2, where)
            for writer in writers:
                crash = reports.crash_of(writer.kill())
                assert crash is None, f"{where}: {crash}"
            *_, contents = server.run("joining_readers:stop", url=url)
            joins = [m for joiner in joiners for m in _messages_of(joiner, where)]
        finally:
            for child in (*writers, *joiners):
                if child.status is None:
                    child.kill()
    _check(joins, contents, where)
    return len(joins)


def _wait_for_joins(child: Child, count: int, where: str) -> None:
    for message in child.messages():
        assert message[0] == "subscribed", f"{where}: {message}"
        count -= 1
        if count == 0:
            return


def _messages_of(child: Child, where: str) -> list[Message]:
    messages = list(child.messages(PATIENCE_S))
    status = child.reap()
    assert status == 0, f"{where}: {reports.crash_of(messages)}"
    return messages


def _check(joins: list[Message], contents: Message, where: str) -> None:
    stored, _ = reports.contents(contents)
    assert len(joins) == JOINS_PER_LOG, f"{where}: {len(joins)} joins came to their end"
    for _, how, seed, starts, given in joins:
        by_partition: dict[int, list[Given]] = defaultdict(list)
        for one in given:
            by_partition[one[0]].append(one)
        for partition, found in stored.items():
            start = starts[str(partition)]
            expected = [(offset, *value) for offset, value in found.records if offset >= start]
            got = [(offset, kind, n) for _, offset, kind, n in by_partition[partition]]
            assert got == expected, f"{where}: {how} of {seed} from {start}: {got} {expected}"


def kill_consumers(server: ForkServer, scheme: str, seed: int, *, bug: str | None = None) -> int:
    """Kill a consumer again and again until it has had everything; return the kills.

    A process continues at a cursor that its predecessors had asked for, or before it:
    so nothing is passed over that was not delivered.
    """
    rng = random.Random(seed)
    ledger = Ledger()
    kills = 0
    with tempfile.TemporaryDirectory() as folder:
        url = url_in(scheme, Path(folder, "log"))
        server.run("workloads:create", url=url)
        server.run("joining_readers:feed", url=url, count=DELIVERIES)
        while any(ledger.cursors[p].promised < DELIVERIES for p in range(2)):
            where = f"{scheme}: seed={seed} kills={kills}"
            child = server.start("joining_readers:consume", bug=bug, url=url)
            following: dict[int, int] = {}
            wanted = rng.randrange(1, 30)
            for message in child.messages():
                _note(ledger, message, following, where)
                wanted -= 1
                if wanted <= 0 or all(ledger.cursors[p].promised == DELIVERIES for p in range(2)):
                    break
            time.sleep(rng.choice([0.0, rng.uniform(0, 0.001)]))
            for message in child.kill():
                _note(ledger, message, following, where)
            kills += 1
    return kills


def _note(ledger: Ledger, message: Message, following: dict[int, int], where: str) -> None:
    if message[0] == "crash":
        raise AssertionError(f"{where}: {message[1]}")
    if message[0] == "cursor":
        findings = list(ledger.cursors[message[1]].check(message[2], where))
        assert not findings, findings
        ledger.cursors[message[1]].promise(message[2])
        return
    if message[0] != "delivered":
        reports.note(ledger, message)
        return
    _, partition, offset = message
    if partition in following:
        assert offset == following[partition], f"{where}: {offset}, not {following[partition]}"
    else:
        findings = list(ledger.cursors[partition].check(offset, f"{where}: partition {partition}"))
        assert not findings, findings
    following[partition] = offset + 1
