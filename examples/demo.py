"""Four threads append to a small durable store, a fifth follows it live, and nothing is lost.

The store is `kv_store.py` beside this file, built on the write coordinator.
`make demo DEMO_EVENTS=20000` does more of it.
"""

import os
import sys
import tempfile
import threading
import time
from pathlib import Path

from examples.kv_store import Store

EVENTS_DEFAULT = 4_000
PRODUCERS = 4


def main() -> int:
    """Return 0 if what was read back is what was acknowledged."""
    events = int(os.environ.get("DEMO_EVENTS") or EVENTS_DEFAULT)
    with tempfile.TemporaryDirectory(prefix="strandline-demo-") as folder:
        path = Path(folder) / "tides"
        print(f"{PRODUCERS} threads append {events} events, each durable before the next:")
        started = time.monotonic()
        seen = append_and_follow(path, events)
        elapsed_s = time.monotonic() - started
        with Store(path) as store:
            found = sum(store.get(f"tide-{n}") == f"high water {n}" for n in range(events))
        size = path.stat().st_size
    print(f"  appended        {events} in {elapsed_s:.2f} s ({events / elapsed_s:,.0f} a second)")
    print(f"  followed live   {seen[-1]}, in {len(seen)} views")
    print(f"  after reopening {found}, from {size:,} bytes")
    print(f"  lost {events - found}, missed by the follower {events - seen[-1]}")
    return int(found != events or seen[-1] != events)


def append_and_follow(path: Path, events: int) -> list[int]:
    """Append from several threads; return how many events each view that was followed held."""
    seen: list[int] = []
    with Store(path) as store:
        follower = threading.Thread(target=follow, args=(store, seen, events))
        follower.start()
        producers = [
            threading.Thread(target=append, args=(store, range(first, events, PRODUCERS)))
            for first in range(PRODUCERS)
        ]
        for producer in producers:
            producer.start()
        for producer in producers:
            producer.join()
    follower.join()
    return seen


def append(store: Store, numbers: range) -> None:
    """Set one pair after the other, each durable before the next."""
    for number in numbers:
        store.set(f"tide-{number}", f"high water {number}")


def follow(store: Store, seen: list[int], events: int) -> None:
    """Note how many events are written, view by view, until the store is closed."""
    following = store.follow()
    seen.append(len(following.initialize().snapshot))
    for update in following:
        seen.append(len(update.view.snapshot))
        show(seen[-1], events)
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")


def show(done: int, events: int) -> None:
    """Draw how far it is, for a person at a terminal."""
    if sys.stderr.isatty():
        width = 40 * done // max(1, events)
        sys.stderr.write(f"\r  [{'~' * width}{' ' * (40 - width)}] {done}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
