"""`growth.*`: a log that has grown long appends as fast as one that is still short."""

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.entry import Contender, Entry
from benchmarks.events import samples
from benchmarks.producing import appended_many_rate, appended_rate, fresh
from benchmarks.sizes import Sizes
from benchmarks.stores import ours
from benchmarks.stores.store import Store
from strandline.values import Durability

FILL_BATCH = 10_000

Rate = Callable[[Store], float]


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries of `growth.`."""
    rates: Mapping[str, Rate] = {
        "single": partial(appended_rate, events=sizes.singles_written),
        "batch": partial(
            appended_many_rate, batches=sizes.batches, batch_events=sizes.batch_events
        ),
    }
    return tuple(
        Entry(
            name=f"growth.append.{name}",
            unit="events/s",
            contenders=partial(_contenders, sizes, rate),
            bars={"small": 0.8},
            rounds=5,
        )
        for name, rate in rates.items()
    )


def fill(store: ours.OurLog, events: int) -> None:
    """Append `events` events, quickly: the same ones again and again."""
    made = store.encoded(samples(min(events, FILL_BATCH)))
    for _ in range(events // len(made)):
        store.append_encoded(made)


def _contenders(sizes: Sizes, rate: Rate, scratch: Path) -> Mapping[str, Contender]:
    """What a round adds to the large log is a thousandth of what is there."""
    large = scratch / "large"
    with closing(ours.shared(large, Durability.WRITTEN)) as store:
        fill(store, sizes.growth_large)
    return {"ours": partial(_rate_of, rate, large), "small": partial(_small, sizes, rate, scratch)}


def _small(sizes: Sizes, rate: Rate, scratch: Path) -> float:
    with fresh(scratch) as path:
        with closing(ours.shared(path, Durability.WRITTEN)) as store:
            fill(store, sizes.growth_small)
        return _rate_of(rate, path)


def _rate_of(rate: Rate, path: Path) -> float:
    with closing(ours.shared(path, Durability.WRITTEN)) as store:
        return rate(store)
