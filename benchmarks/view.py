"""`view.*`: folding records into a state, and lookups, compared with minimal Python."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import strandline as sl
from benchmarks.entry import Contender, Entry, now
from benchmarks.events import samples
from benchmarks.sizes import Sizes
from benchmarks.stores.ours import event_of, url_of

BATCH = 1_000
TAIL = 1_000
RESTART_S = 1.0

State = dict[str, list[int]]

_numbers = count()


class Totals(sl.View[State]):
    """How many events and how many payload fields each key has had."""

    def initial(self, partition: int) -> State:  # noqa: ARG002 - Not every view needs it.
        return {}

    def apply(self, state: State, record: sl.Record) -> None:
        key = record.key
        assert key is not None
        total = state.get(key)
        if total is None:
            total = state[key] = [0, 0]
        total[0] += 1
        total[1] += len(record.payload)

    def encode(self, state: State) -> bytes:
        return json.dumps(state).encode()

    def decode(self, stored: bytes) -> State:
        state: State = json.loads(stored)
        return state


def filled(url: str, events: int) -> sl.Log:
    """Return a log with one topic of one partition."""
    log = sl.open(url)
    log.create_topic("events")
    made = [event_of(sample) for sample in samples(events)]
    for at in range(0, events, BATCH):
        log.append_many("events", made[at : at + BATCH])
    return log


# --- view.apply ---


def applying(scratch: Path, *, backend: str, events: int) -> Mapping[str, Contender]:
    """Return a view that catches up, beside a loop that reads and applies the same records."""
    url = "memory:" if backend == "memory" else f"sqlite:{scratch / f'{next(_numbers)}.db'}"
    log = filled(url, events)
    return {"ours": partial(_catch_up, log, events), "loop": partial(_loop, log, events)}


def _catch_up(log: sl.Log, events: int) -> float:
    with sl.LiveView(log, "events", Totals()) as view:
        started = now()
        view.reconcile([0])
        view.wait_ready()
        elapsed_s = now() - started
        assert view.applied(0) == events - 1
    return events / elapsed_s


def _loop(log: sl.Log, events: int) -> float:
    totals = Totals()
    started = now()
    state = totals.initial(0)
    for record in log.read("events", 0, 0):
        totals.apply(state, record)
    return events / (now() - started)


# --- view.read ---


def reading(_: Path, *, events: int, reads: int) -> Mapping[str, Contender]:
    """Return point reads of a ready view, beside a lookup in a plain dict."""
    log = filled("memory:", events)
    view = sl.LiveView(log, "events", Totals())
    view.reconcile([0])
    view.wait_ready()
    state = view.read(0, dict)
    assert state is not None
    keys = [sample.key for sample in samples(reads)]
    return {
        "ours": partial(_ask, keys, partial(_of_view, view)),
        "dict": partial(_ask, keys, state.get),
    }


def _of_view(view: sl.LiveView[State], key: str) -> object:
    return view.read(0, lambda state: state.get(key))


def _ask(keys: list[str], lookup: Callable[[str], Any]) -> float:
    started = now()
    for key in keys:
        lookup(key)
    return len(keys) / (now() - started)


# --- view.restart ---


def restarting(scratch: Path, *, events: int) -> Mapping[str, Contender]:
    """Return a start from a snapshot of `events` and a tail of TAIL, until it is ready."""
    url, snapshot = url_of(scratch / "log"), scratch / "snapshot"
    made = [event_of(sample) for sample in samples(BATCH)]
    with sl.open(url) as log:
        log.create_topic("events")
        for at in range(0, events, BATCH):
            log.append_many("events", made[: events - at])
        with sl.LiveView(log, "events", Totals(), snapshot=snapshot) as view:
            view.reconcile([0])
            view.wait_ready()
        log.append_many("events", made[:TAIL])
    return {"ours": partial(_restart_s, url, snapshot, events), "wanted": lambda: RESTART_S}


def _restart_s(url: str, snapshot: Path, events: int) -> float:
    started = now()
    with sl.open(url) as log:
        view = sl.LiveView(log, "events", Totals(), snapshot=snapshot)
        view.reconcile([0])
        view.wait_ready()
        elapsed_s = now() - started
        assert view.committed(0) == events - 1
        assert view.applied(0) == events + TAIL - 1
        # The next round begins with the same snapshot.
        view.close(save=False)
    return elapsed_s


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries of `view.`."""
    return (
        Entry(
            name="view.apply.memory",
            unit="events/s",
            contenders=partial(applying, backend="memory", events=sizes.state_events),
            bars={"loop": 0.5},
            rounds=5,
        ),
        Entry(
            name="view.apply.sqlite",
            unit="events/s",
            contenders=partial(applying, backend="sqlite", events=sizes.state_events),
            bars={"loop": 0.5},
            rounds=5,
        ),
        Entry(
            name="view.read",
            unit="reads/s",
            contenders=partial(reading, events=sizes.state_events, reads=sizes.state_reads),
            rounds=5,
        ),
        Entry(
            name="view.restart",
            unit="s",
            contenders=partial(restarting, events=sizes.view_events),
            bars={"wanted": 1},
            rounds=5,
        ),
    )
