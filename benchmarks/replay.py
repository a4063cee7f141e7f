"""`replay.*`: a million events from first to last."""

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.entry import Contender, Entry, now
from benchmarks.events import samples
from benchmarks.sizes import Sizes
from benchmarks.stores import ours
from benchmarks.stores.arrow import ArrowFile
from benchmarks.stores.peers import PEERS
from benchmarks.stores.store import Replayed, ReplayOpening
from strandline.values import Durability

#: How many different events there are; enough that no cache holds them all.
DIFFERENT = 100_000
BATCH = 1_000


Read = Callable[[Replayed], int]
"""Reads a store as its entry wants it read; returns how many events there were."""


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries of `replay.`."""
    beside: Mapping[str, ReplayOpening] = {"pyarrow": ArrowFile, **PEERS}
    made = partial(_contenders, sizes, beside)
    bars = {"pyarrow": 0.2, "best_peer": 2}
    return (
        _entry("arrow", made(_write_batches, _scan), bars),
        _entry("arrow.singles", made(_write_singles, _scan), bars),
        _entry("objects", made(_write_batches, _touch), {"best_peer": 1.6}),
    )


def _entry(
    name: str, measured: Callable[[Path], Mapping[str, Contender]], bars: Mapping[str, float]
) -> Entry:
    return Entry(name=f"replay.{name}", unit="events/s", contenders=measured, bars=bars)


def _contenders(
    sizes: Sizes,
    beside: Mapping[str, ReplayOpening],
    fill_ours: Callable[[ours.OurLog, int], None],
    read: Read,
) -> Callable[[Path], Mapping[str, Contender]]:
    events = sizes.replay_events
    openings = {"ours": ours.exclusive, **beside}

    def made(scratch: Path) -> Mapping[str, Contender]:
        with closing(ours.exclusive(scratch / "ours", Durability.WRITTEN)) as log:
            fill_ours(log, events)
        for name, opening in beside.items():
            with closing(opening(scratch / name, Durability.WRITTEN)) as store:
                _write_batches(store, events)
        return {
            name: partial(_rate, read, opening, scratch / name, events)
            for name, opening in openings.items()
        }

    return made


def _rate(read: Read, opening: ReplayOpening, path: Path, events: int) -> float:
    with closing(opening(path, Durability.WRITTEN)) as store:
        started = now()
        found = read(store)
        elapsed_s = now() - started
    assert found == events, f"{found} of {events} events were read"
    return events / elapsed_s


# --- how it was written ---


def _write_batches(store: Replayed, events: int) -> None:
    different = samples(min(events, DIFFERENT))
    for start in range(0, events, len(different)):
        for at in range(0, min(len(different), events - start), BATCH):
            store.append_encoded(store.encoded(different[at : at + BATCH]))


def _write_singles(log: ours.OurLog, events: int) -> None:
    different = samples(min(events, DIFFERENT))
    for start in range(0, events, len(different)):
        for sample in different[: events - start]:
            log.append(sample)
    log.seal()


# --- how it is read ---


def _scan(store: Replayed) -> int:
    return store.scan()


def _touch(store: Replayed) -> int:
    return sum(1 for payload in store.payloads() if payload)
