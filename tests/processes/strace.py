"""The order of writes, syncs and acknowledgements, by strace."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.processes.fork_server import ROOT

CALLS = "pwrite64,pwritev,write,writev,fdatasync,fsync,msync"
_CALL = re.compile(r"^(?P<pid>\d+) +(?P<name>\w+)\((?P<fd>\d+)<(?P<path>[^>]*)>(?P<rest>.*)$")
_RESUMED = re.compile(r"^(?P<pid>\d+) +<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)$")
_UNFINISHED = " <unfinished ...>"


@dataclass(frozen=True)
class Call:
    """One system call on a file: the lines at which it began and had succeeded."""

    began: int
    ended: int
    name: str
    path: str
    text: str

    @property
    def is_sync(self) -> bool:
        """Whether it makes its file durable."""
        return self.name in {"fdatasync", "fsync"}


def why_not() -> str | None:
    """Return why nothing can be traced here; None if it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(
        [_strace(), "-e", "trace=none", "true"], capture_output=True, text=True, check=False
    )
    return None if tried.returncode == 0 else f"ptrace is not allowed: {tried.stderr.strip()}"


def watch(module: str, *arguments: str, trace: Path) -> list[Call]:
    """Run a module under strace, and return the calls in the order in which they ended."""
    options = ["-f", "-y", "-s", "1000000", "-e", f"trace={CALLS}", "-e", "signal=none"]
    subprocess.run(
        [_strace(), *options, "-o", str(trace), sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return list(parsed(trace.read_text(errors="replace")))


def _strace() -> str:
    found = shutil.which("strace")
    assert found is not None
    return found


def parsed(trace: str) -> Iterator[Call]:
    """Yield each call that succeeded."""
    begun: dict[str, tuple[int, re.Match[str]]] = {}
    for number, line in enumerate(trace.splitlines()):
        began, call, rest = number, _CALL.match(line), ""
        if call is not None and line.endswith(_UNFINISHED):
            begun[call["pid"]] = number, call
            continue
        if call is not None:
            rest = call["rest"]
        elif (resumed := _RESUMED.match(line)) and resumed["pid"] in begun:
            began, call = begun.pop(resumed["pid"])
            rest = call["rest"] + resumed["rest"]
        if call is not None and not re.search(r"= -\d+ \w+ \(.*\)$", rest):
            yield Call(began, number, call["name"], call["path"], rest)


def unsynced(calls: list[Call], needle: str, acknowledgement: str) -> str | None:
    """Return what is wrong with a durable append; None if its sync came in time.

    A file into which the value was written was synced after the write had ended, and
    the sync had ended before the acknowledgement began.
    """
    ack = next((c for c in calls if acknowledgement in c.text and "pipe:" in c.path), None)
    if ack is None:
        return f"never acknowledged: {acknowledgement}"
    writes = [c for c in calls if needle in c.text and not c.is_sync and "pipe:" not in c.path]
    if not writes:
        return f"never written: {needle}"
    for written in writes:
        for sync in calls:
            if (
                sync.is_sync
                and sync.path == written.path
                and sync.began > written.ended
                and sync.ended < ack.began
            ):
                return None
    return f"acknowledged before a sync: {needle}"
