"""`trigger.tail`: the latency that a predicate adds between a publisher and subscribers."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median

import strandline as sl
from benchmarks.entry import Contender, Entry, now
from benchmarks.events import samples
from benchmarks.latency import latencies_us, publish
from benchmarks.producing import fresh
from benchmarks.sizes import Sizes
from benchmarks.stores import ours
from strandline.values import Durability

#: Every event matches, so that both sides wait for the same ones.
WHERE = "key LIKE 'customer-%' AND kind <> 'subscriber {number}' AND occurred_at IS NULL"


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entry: eight subscribers, each with a predicate of its own, in the median."""
    entry = Entry(
        name="trigger.tail",
        unit="µs",
        contenders=partial(_contenders, sizes.eight, sizes.tail_events),
        bars={"no predicate": 0.5},
    )
    return (entry,)


def _contenders(subscribers: int, events: int, scratch: Path) -> Mapping[str, Contender]:
    with_predicates = [WHERE.format(number=number) for number in range(subscribers)]
    return {
        "ours": partial(_tail, with_predicates, events, scratch),
        "no predicate": partial(_tail, [""] * subscribers, events, scratch),
    }


def _tail(predicates: list[str], events: int, scratch: Path) -> float:
    with fresh(scratch) as path, ThreadPoolExecutor(len(predicates)) as pool:
        store = ours.shared(path, Durability.WRITTEN)
        try:
            gate = threading.Barrier(len(predicates) + 1)
            subscriptions = [
                sl.subscribe(store.log, ours.TOPIC, where=where) for where in predicates
            ]
            received = [pool.submit(_receive, each, events, gate) for each in subscriptions]
            gate.wait()
            begun = publish(store.append, samples(events))
            return median(latencies_us(begun, [each.result() for each in received]))
        finally:
            store.close()


def _receive(
    subscription: sl.Subscription[sl.Record], events: int, gate: threading.Barrier
) -> list[float]:
    came = []
    gate.wait()
    with subscription:
        for record in subscription:
            came.append(now())
            if record.offset == events - 1:
                break
    return came
