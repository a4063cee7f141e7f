"""The share of the machine that other programs use."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

#: Long enough for ten ticks of the kernel's clock, by which it counts.
PAUSE_S = 0.1
#: From this share on a figure is not used: one busy program takes half of two cores.
BUSY_SHARE = 0.25

_IDLE, _WAITING_FOR_DISKS = 3, 4


def share_of_others(
    proc: Path = Path("/proc"), pause: Callable[[float], object] = time.sleep
) -> float:
    """Return the share of all cores that others take while this program pauses.

    Processes that this program has started are not counted: Spark compiles, and servers clean up
    in the background. Returns 0 if the system has no such figures.
    """
    if not (proc / "stat").exists():
        return 0.0
    before, own_before = _ticks(proc), _own_ticks(proc)
    pause(PAUSE_S)
    passed = [later - earlier for earlier, later in zip(before, _ticks(proc), strict=True)]
    own, total = _own_ticks(proc) - own_before, sum(passed)
    taken = total - passed[_IDLE] - passed[_WAITING_FOR_DISKS] - own
    return max(0.0, taken / total) if total else 0.0


def _ticks(proc: Path) -> list[int]:
    """Return the ticks of all cores by what they went to, up to those that a host took."""
    return [int(ticks) for ticks in (proc / "stat").read_text().splitlines()[0].split()[1:9]]


def _own_ticks(proc: Path) -> int:
    """Return the ticks that this process and those that it has started have taken."""
    processes = {pid: (parent, ticks) for pid, parent, ticks in _processes(proc)}
    own = {os.getpid()}
    # Children may have lower numbers than their parents.
    while found := {pid for pid, (parent, _) in processes.items() if parent in own} - own:
        own |= found
    return sum(ticks for pid, (_, ticks) in processes.items() if pid in own)


def _processes(proc: Path) -> Iterator[tuple[int, int, int]]:
    """Yield number, parent and ticks of each process."""
    for folder in proc.iterdir():
        if folder.name.isdigit():
            try:
                # Behind the name, which may have any characters.
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            yield int(folder.name), int(fields[1]), int(fields[11]) + int(fields[12])
