"""How much of the machine other programs take."""

import time
from pathlib import Path

#: Long enough for ten ticks of the kernel's clock, by which it counts.
PAUSE_S = 0.1
#: From this share on a figure says nothing: one program that never waits takes half of two cores.
BUSY_SHARE = 0.25

_IDLE, _WAITING_FOR_DISKS = 3, 4


def share_of_others(stat: Path = Path("/proc/stat")) -> float:
    """Return the share of all cores that is taken while this program pauses.

    Returns 0 where the system does not say.
    """
    if not stat.exists():
        return 0.0
    before = _ticks(stat)
    time.sleep(PAUSE_S)
    passed = [later - earlier for earlier, later in zip(before, _ticks(stat), strict=True)]
    total = sum(passed)
    return 1 - (passed[_IDLE] + passed[_WAITING_FOR_DISKS]) / total if total else 0.0


def _ticks(stat: Path) -> list[int]:
    """Return the ticks of all cores by what they went to, up to those that a host took."""
    return [int(ticks) for ticks in stat.read_text().splitlines()[0].split()[1:9]]
