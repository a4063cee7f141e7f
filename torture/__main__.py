"""Runs the tortures, each for its share of the time, shows progress, prints the counts."""

import os
import sys
import time
from collections.abc import Callable

from tests.log.files import crashes, damaged
from tests.model import coordinator_schedules
from tests.processes import joins, kills
from tests.spark import sink_kills
from tests.spark.killed_driver import POINTS
from tests.views import schedules as view_schedules
from torture import processes, sinks

SECONDS_DEFAULT = 300.0

#: Name of what is counted → runs one seed of it, and raises when a rule is broken.
TORTURES: dict[str, Callable[[int], None]] = {
    "coordinator schedules": coordinator_schedules.run,
    "view schedules": view_schedules.run,
    f"logs with {kills.KILLS_PER_LOG} kills": processes.kill,
    "logs with killed consumers": processes.kill_consumers,
    "outboxes with killed writers": processes.share_transactions,
    f"Spark sinks with {sink_kills.KILLS_PER_LOG} kills": sinks.kill_sink,
    f"Spark queries with {len(POINTS)} killed drivers": sinks.kill_drivers,
    "fights of writers": processes.fight,
    f"logs with {joins.JOINS_PER_LOG} joins": processes.join,
    "sweeps of faults and kills": processes.sweep,
    "partitions that change hands": processes.take_over,
    "restored copies": processes.restore,
    f"file log crashes, {crashes.IMAGES_PER_SEED} images each": crashes.run,
    f"file log damage, {damaged.BITS_PER_SEED} bits each": damaged.run,
}


def main() -> int:
    """Return how many tortures found something."""
    seed = int(os.environ.get("STRANDLINE_TORTURE_SEED") or time.time_ns() % 10**9)
    seconds = float(os.environ.get("STRANDLINE_TORTURE_SECONDS") or SECONDS_DEFAULT)
    only = os.environ.get("STRANDLINE_TORTURE_ONLY", "")
    chosen = {name: run for name, run in TORTURES.items() if only in name}
    if not chosen:
        print(f"no torture has {only!r} in its name; there are: {', '.join(TORTURES)}")
        return 1
    print(f"seed {seed}, about {seconds:.0f} s")
    share_s = seconds / len(chosen)
    return sum(not _torture(name, run, seed, share_s) for name, run in chosen.items())


def _torture(name: str, run: Callable[[int], None], seed: int, share_s: float) -> bool:
    """Run seed after seed until the share is used up; False at the first broken rule."""
    end = time.monotonic() + share_s
    count = 0
    while time.monotonic() < end:
        try:
            run(seed + count)
        except Exception as error:  # noqa: BLE001 - Whatever it is, the seed repeats it.
            _show("")
            print(f"{name}: {count} passed, then seed {seed + count} failed: {error!r}")
            return False
        count += 1
        if count % 100 == 0:
            _show(f"{name}: {count} passed, {end - time.monotonic():.0f} s to go")
    _show("")
    print(f"{name}: {count} passed, 0 failed")
    return True


def _show(line: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{line}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
