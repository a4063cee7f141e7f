"""A kill, or a fault, at the first I/O call of a script, the second, and so on to its end."""

import copy
import errno
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from strandline.values import Durability
from tests.processes import report as reports
from tests.processes.fork_server import Child, ForkServer
from tests.processes.ledger import Ledger
from tests.processes.report import Message
from tests.processes.stores import copy_of, url_in

NTH_MAX = 5000

SCRIPT = "workloads:script"
RARE_PATHS = "rare_paths:rare_paths"
OPENING = "workloads:opening"
#: What is lived through on each kind of log.
WORKLOADS = {"sqlite": (SCRIPT,), "file": (SCRIPT, RARE_PATHS)}


class Fault(NamedTuple):
    """What the call does instead."""

    error: str | int
    forever: bool = False
    after: bool = False
    #: Which calls are counted; None for all.
    kinds: tuple[str, ...] | None = None


FAULTS = (
    Fault(errno.EIO),
    Fault(errno.EIO, forever=True),
    Fault(errno.EIO, after=True),
    Fault(errno.ENOSPC),
    Fault(errno.ENOSPC, forever=True),
    Fault("short"),
    Fault("short", forever=True),
    Fault("surprise"),
    Fault("surprise", forever=True),
)

FAILED_SYNC = Fault(errno.EIO, kinds=("sync",))


@dataclass
class Counts:
    """What a sweep has done."""

    trials: int = 0
    failed: int = 0
    sites: Counter[str] = field(default_factory=Counter)
    #: Where errors of the operating system came through as they were.
    untyped: Counter[str] = field(default_factory=Counter)


@dataclass
class Sweep:
    """One scheme, one kind of trouble, each call in turn."""

    server: ForkServer
    scheme: str
    folder: Path
    bug: str | None = None
    workload: str = SCRIPT
    counts: Counts = field(default_factory=Counts)

    # --- kills ---

    def kill_each_call(
        self, *, halfway: bool = False, first: int = 1, stride: int = 1
    ) -> Iterator[tuple[str, Ledger]]:
        """Yield each log that was left behind by a crash, and what its writer had been promised.

        `halfway` ends the process within a write instead of before a call. A kill after
        a call leaves the same files as one before the next.
        """
        for nth in range(first, NTH_MAX, stride):
            url = url_in(self.scheme, self.folder / "trial")
            ledger = Ledger()
            child = self._start(
                "be_killed_at", url, nth=nth, halfway=halfway, workload=self.workload
            )
            messages = self._finish(child, ledger)
            left = copy_of(url, self.folder / "left"), copy.deepcopy(ledger)
            self._check(url, ledger, f"killed at call {nth}, halfway={halfway}")
            yield left
            self._remove(left[0])
            self._remove(url)
            if any(message[0] == "survived" for message in messages):
                return
        raise AssertionError("the script never came to its end")

    def kill_each_call_of_opening(
        self, url: str, told: Ledger, *, halfway: bool = False, first: int = 1, stride: int = 1
    ) -> None:
        """The same while a log that a dead process left behind is opened."""
        for nth in range(first, NTH_MAX, stride):
            again = copy_of(url, self.folder / "again")
            ledger = copy.deepcopy(told)
            child = self._start("be_killed_at", again, nth=nth, halfway=halfway, workload=OPENING)
            messages = self._finish(child, ledger)
            self._check(again, ledger, f"killed at call {nth} of opening")
            self._remove(again)
            if any(message[0] == "survived" for message in messages):
                return

    # --- faults ---

    def fail_each_call(
        self, fault: Fault, *, first: int = 1, stride: int = 1
    ) -> Iterator[tuple[str, Ledger]]:
        """Yield each log as its writer left it, and what the writer had been promised."""
        for nth in range(first, NTH_MAX, stride):
            url = url_in(self.scheme, self.folder / "trial")
            ledger = Ledger()
            child = self._start("fail_at", url, nth=nth, workload=self.workload, **fault._asdict())
            where = f"call {nth} failed, {fault}"
            fired = self._site_of(self._finish(child, ledger), where)
            left = copy_of(url, self.folder / "left"), copy.deepcopy(ledger)
            self._check(url, ledger, where)
            yield left
            self._remove(left[0])
            self._remove(url)
            if not fired:
                return
        raise AssertionError("the script never came to its end")

    def fail_each_call_of_opening(
        self, url: str, told: Ledger, fault: Fault, *, first: int = 1, stride: int = 1
    ) -> None:
        """The same while a log is opened."""
        for nth in range(first, NTH_MAX, stride):
            again = copy_of(url, self.folder / "again")
            ledger = copy.deepcopy(told)
            child = self._start("fail_at", again, nth=nth, workload=OPENING, **fault._asdict())
            where = f"call {nth} of opening failed, {fault}"
            fired = self._site_of(self._finish(child, ledger), where)
            self._check(again, ledger, where)
            self._remove(again)
            if not fired:
                return

    # --- inside ---

    def _start(self, task: str, url: str, **arguments: object) -> Child:
        self.counts.trials += 1
        return self.server.start(f"workloads:{task}", bug=self.bug, url=url, **arguments)

    def _finish(self, child: Child, ledger: Ledger) -> list[Message]:
        messages = list(child.messages())
        child.reap()
        crash = reports.crash_of(messages)
        assert crash is None, crash
        for message in messages:
            reports.note(ledger, message)
        return messages

    def _site_of(self, messages: list[Message], where: str) -> bool:
        """Count the call that was struck; return whether one was."""
        sites = [message[2] for message in messages if message[0] == "fault"]
        self.counts.failed += bool(sites)
        self.counts.untyped.update(str(m[1]) for m in messages if m[0] == "untyped")
        self.counts.sites.update(site for site in sites if site is not None)
        is_durable = is_doubtful = False
        for kind, *fields in messages:
            if kind == "offer":
                is_doubtful = False
                is_durable = fields[3] == str(Durability.DURABLE)
            elif kind == "fault":
                is_doubtful = fields[0] in {"sync", "sync_directory"}
            elif kind == "created_again":
                # With space of the reserve: what was not synced is not needed any more.
                is_doubtful = False
            elif kind == "ack":
                assert not (is_durable and is_doubtful), f"{where}: durable after a failed sync"
        return bool(sites)

    def _check(self, url: str, ledger: Ledger, where: str) -> None:
        try:
            messages = self.server.run("workloads:read_back", url=url)
        except AssertionError as error:
            raise AssertionError(f"{where}: it cannot be opened: {error}") from error
        for message in messages:
            if message[0] == "contents":
                reports.check(ledger, message, where)
            else:
                reports.note(ledger, message)

    def _remove(self, url: str) -> None:
        shutil.rmtree(Path(url.partition(":")[2]).parent)


def sites_reached(server: ForkServer, scheme: str) -> set[str]:
    """Return the calls that a run of the script can make, also those after a failed sync."""
    sites: set[str] = set()
    for workload in WORKLOADS[scheme]:
        for nth in range(NTH_MAX):
            with tempfile.TemporaryDirectory() as folder:
                url = url_in(scheme, Path(folder, "log"))
                *_, told = server.run(
                    "workloads:report_sites", url=url, failed_sync=nth, workload=workload
                )
            sites.update(told[1])
            if nth and not told[2]:
                break
    return sites


def kill_sweep(
    server: ForkServer,
    scheme: str,
    *,
    halfways: Iterable[bool] = (False, True),
    first: int = 1,
    stride: int = 1,
    openings: int,
    bug: str | None = None,
    workload: str = SCRIPT,
) -> Counts:
    """Kill at every call of a script, or some, and at those of some openings after that.

    Of the logs that are left behind, every so many are opened so: `openings`.
    """
    with tempfile.TemporaryDirectory() as folder:
        sweep = Sweep(server, scheme, Path(folder), bug, workload)
        for halfway in halfways:
            left = sweep.kill_each_call(halfway=halfway, first=first, stride=stride)
            for number, (url, told) in enumerate(left):
                if number % openings == 0:
                    sweep.kill_each_call_of_opening(
                        url, told, halfway=halfway, first=first, stride=stride
                    )
        return sweep.counts


def fault_sweep(
    server: ForkServer,
    scheme: str,
    fault: Fault,
    *,
    first: int = 1,
    stride: int = 1,
    openings: int,
    bug: str | None = None,
    workload: str = SCRIPT,
) -> Counts:
    """Fail every call of a script, or some, and those of some openings after that."""
    with tempfile.TemporaryDirectory() as folder:
        sweep = Sweep(server, scheme, Path(folder), bug, workload)
        left = sweep.fail_each_call(fault, first=first, stride=stride)
        for number, (url, told) in enumerate(left):
            if number % openings == 0:
                sweep.fail_each_call_of_opening(url, told, fault, first=first, stride=stride)
        return sweep.counts
