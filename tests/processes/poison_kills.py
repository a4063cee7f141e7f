"""A record that kills each process that handles it is dead-lettered, and no other one is."""

import tempfile
from collections import Counter
from pathlib import Path

from tests.processes.fork_server import ForkServer
from tests.processes.poisoned import ALLOWED, NAMES, POISON, RECORDS
from tests.processes.report import Message
from tests.processes.stores import url_in
from tests.processes.workloads import PARTITIONS

CONCURRENCIES = (1, 8, 32)
RUNS_MAX = ALLOWED + 4


def run(
    server: ForkServer, scheme: str, concurrency: int, *, by: str, bug: str | None = None
) -> Counter[tuple[str, int, int]]:
    """Start processes until one survives, and return how often each record was begun."""
    where = f"{scheme}: {by} concurrency={concurrency}"
    begun: Counter[tuple[str, int, int]] = Counter()
    ended: set[tuple[str, int, int]] = set()
    messages: list[Message] = []
    with tempfile.TemporaryDirectory() as folder:
        url = url_in(scheme, Path(folder, "log"))
        server.run("workloads:create", url=url)
        server.run("poisoned:feed", url=url)
        for _ in range(RUNS_MAX):
            child = server.start(f"poisoned:{by}", bug=bug, url=url, concurrency=concurrency)
            messages = list(child.messages())
            begun.update(tuple(rest) for kind, *rest in messages if kind == "begin")
            ended.update(tuple(rest) for kind, *rest in messages if kind == "end")
            if child.reap() == 0:
                break
    poison = NAMES[0], *POISON
    calls = begun[poison]
    assert messages[-1][0] == "dead_letters", f"{where}: {calls} calls, and {messages[-1]}"
    assert ALLOWED <= calls <= ALLOWED + 1, f"{where}: the poison was handled {calls} times"
    assert messages[-1][1] == [[*poison, calls]], f"{where}: {messages[-1]}"
    names = NAMES if by == "handle" else NAMES[:1]
    wanted = {(name, p, n) for name in names for p in range(PARTITIONS) for n in range(RECORDS)}
    assert ended == wanted - {poison}, f"{where}: {sorted(wanted - ended)}"
    return begun
