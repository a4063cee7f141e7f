"""`growth.*`: a large state costs the same for each of its parts as a small one."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from uuid import UUID

from benchmarks.entry import Contender, Entry, now
from benchmarks.events import samples
from benchmarks.producing import appended_many_rate, appended_rate, fresh
from benchmarks.sizes import Sizes
from benchmarks.stores import ours
from benchmarks.stores.store import Store
from strandline.tiering.segment import (
    CopiedSegment,
    PartitionEviction,
    SegmentChange,
    SegmentState,
    Step,
    UserPartition,
)
from strandline.tiering.segment_view import CatalogueState, take
from strandline.values import Durability

FILL_BATCH = 10_000
COPY_RECORDS = 1000

Rate = Callable[[Store], float]


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries of `growth.`."""
    rates: Mapping[str, Rate] = {
        "single": partial(appended_rate, events=sizes.singles_written),
        "batch": partial(
            appended_many_rate, batches=sizes.batches, batch_events=sizes.batch_events
        ),
    }
    appends = tuple(
        Entry(
            name=f"growth.append.{name}",
            unit="events/s",
            contenders=partial(_contenders, sizes, rate),
            bars={"small": 0.8},
            rounds=5,
        )
        for name, rate in rates.items()
    )
    catalogue = Entry(
        name="growth.catalogue",
        unit="copies/s",
        contenders=partial(_catalogues, sizes),
        bars={"small": 0.8},
        rounds=5,
    )
    return (*appends, catalogue)


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


def _catalogues(sizes: Sizes, _: Path) -> Mapping[str, Contender]:
    """Both fold the same number of copies: the small one folds its few again and again."""
    large = steps_of(sizes.copies_large)
    small = steps_of(sizes.copies_small)
    times = sizes.copies_large // sizes.copies_small
    return {
        "ours": partial(_folded_rate, large, sizes.copies_large, 1),
        "small": partial(_folded_rate, small, sizes.copies_small, times),
    }


def _folded_rate(steps: Sequence[Step], copies: int, times: int) -> float:
    started_s = now()
    for _ in range(times):
        state = CatalogueState()
        for step in steps:
            take(state, step)
    return copies * times / (now() - started_s)


def steps_of(copies: int) -> Sequence[Step]:
    """Return the steps of so many copies of one partition, each of them finished and evicted."""
    place = UserPartition(UUID(int=1), 0, "orders")
    steps: list[Step] = []
    for number in range(copies):
        start, end = number * COPY_RECORDS, (number + 1) * COPY_RECORDS
        segment = CopiedSegment(
            id=UUID(int=number + 1),
            place=place,
            start=start,
            end=end,
            epochs=((0, start),),
            first_us=start,
            last_us=end,
            record_bytes=1,
            size_bytes=1,
            digest="",
            store="memory:///bench",
            name=str(number),
            changed_at_us=end,
        )
        finished = SegmentChange(
            id=segment.id, place=place, state=SegmentState.COPY_FINISHED, changed_at_us=end
        )
        evicted = PartitionEviction(place=place, start=start, before=end, changed_at_us=end)
        steps += [segment, finished, evicted]
    return steps


def _rate_of(rate: Rate, path: Path) -> float:
    with closing(ours.shared(path, Durability.WRITTEN)) as store:
        return rate(store)
