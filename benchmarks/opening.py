"""`open.*`: from the call of `open` to the first append that is acknowledged."""

import os
import signal
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import strandline as sl
from benchmarks.crew import crew
from benchmarks.entry import Contender, Entry, now
from benchmarks.events import samples
from benchmarks.producing import fresh
from benchmarks.sizes import Sizes
from benchmarks.stores import ours
from strandline.values import Durability

CLEAN_S = 1.0
KILLED_S = 5.0
TOPICS_S = 2.0
BATCH = 10_000


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries of `open.`. The files are in the page cache, as after a restart."""
    return (
        _entry("clean", partial(_clean, sizes)),
        _entry("killed", partial(_killed, sizes)),
        _entry("topics", partial(_topics, sizes)),
    )


def _entry(name: str, contenders: "partial[Mapping[str, Contender]]") -> Entry:
    return Entry(name=f"open.{name}", unit="s", contenders=contenders, bars={"wanted": 1})


def _open_s(path: Path) -> float:
    """Open, append one event, and return how long both took."""
    event = ours.event_of(samples(1)[0])
    started = now()
    with sl.open(ours.url_of(path)) as log:
        log.append(ours.TOPIC, event)
        return now() - started


# --- a log that was closed ---


def _clean(sizes: Sizes, scratch: Path) -> Mapping[str, Contender]:
    path = scratch / "log"
    with closing(ours.shared(path, Durability.WRITTEN)) as store:
        _fill(store, sizes.log_bytes)
    return {"ours": partial(_open_s, path), "wanted": lambda: CLEAN_S}


def _fill(store: ours.OurLog, size_bytes: int) -> None:
    made = store.encoded(samples(BATCH))
    filled = 0
    each = sum(len(event.payload_json) + len(event.headers_json) for event in made)
    while filled < size_bytes:
        store.append_encoded(made)
        filled += each


# --- a log whose writer was killed ---


def _killed(sizes: Sizes, scratch: Path) -> Mapping[str, Contender]:
    return {"ours": partial(_killed_s, sizes.log_bytes, scratch), "wanted": lambda: KILLED_S}


def _killed_s(size_bytes: int, scratch: Path) -> float:
    """Kill a writer that has filled a log, never synced it, and continues appending."""
    with fresh(scratch) as path:
        with crew(_append_for_ever, [(path, size_bytes)]) as (member,):
            pid: int = member.recv()
            os.kill(pid, signal.SIGKILL)
        return _open_s(path)


def _append_for_ever(parent: Connection, path: Path, size_bytes: int) -> None:
    store = ours.shared(path, Durability.WRITTEN)
    _fill(store, size_bytes)
    parent.send(os.getpid())
    while True:
        for sample in samples(1_000):
            store.append(sample)


# --- a log of many topics ---


def _topics(sizes: Sizes, scratch: Path) -> Mapping[str, Contender]:
    path = scratch / "log"
    with closing(ours.shared(path, Durability.WRITTEN)) as store:
        for number in range(sizes.topics):
            store.log.create_topic(f"topic-{number:05}")
    return {"ours": partial(_open_s, path), "wanted": lambda: TOPICS_S}
