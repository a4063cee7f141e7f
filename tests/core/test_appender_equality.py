"""Any calls of a log, with the core and without: the same receipts, files, errors and metrics."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline as sl
from strandline.log import Log, shortcuts
from strandline.log.topic_changes import ROUTE_DELAY_S
from strandline.stores.files import compiled_lane
from strandline.testing import FakeClock
from strandline.values import StrandlineError
from strandline.values.delivery_time import DELIVER_AT, delivery_time
from tests.core.plain import MOMENT, needs_core
from tests.core.test_lane import frames_of
from tests.logs import file_log

pytestmark = needs_core

Call = Callable[[Log, Log, FakeClock], Any]

KEYS = st.none() | st.sampled_from(["a", "b", "c", "d"])
EVENTS = st.builds(
    lambda n, key, size, headers: sl.Event(
        "placed", {"n": n, "x": "y" * size}, key=key, headers=headers
    ),
    st.integers(0, 99),
    KEYS,
    # The last is larger than a record may be.
    st.sampled_from([0, 10, 500, 3_000]),
    st.sampled_from([{}, {"a": "b"}, {DELIVER_AT: delivery_time(MOMENT)}]),
)
TERMS: list[dict[str, Any]] = [
    {},
    {"durability": None},
    {"durability": "written"},
    {"durability": sl.Durability.WRITTEN},
    {"durability": "durable"},
    {"durability": "applied"},
    {"durability": "none"},
    {"partition": 0},
    {"partition": 2},
    {"partition": None},
    {"key": "b"},
    {"tenant": "acme"},
    {"timeout_s": 5.0},
    {"timeout_s": -1},
    {"expected_offset": 1},
    {"producer": "p", "sequence": 1},
    {"producer": "p"},
    {"idempotency_key": "once"},
    {"deliver_at": MOMENT},
    {"deliver_at": "tomorrow"},
    {"no_such_term": 1},
]


def append(name: Any, event: Any, terms: dict[str, Any]) -> Call:
    return lambda log, _, __: log.append(name, event, **terms)


def append_as_topic(event: Any, terms: dict[str, Any]) -> Call:
    return lambda log, _, __: log.append(log.topic("orders"), event, **terms)


def append_many(events: Any, terms: dict[str, Any]) -> Call:
    return lambda log, _, __: list(log.append_many("orders", events, **terms))


def append_by_other(event: Any) -> Call:
    return lambda _, other, __: other.append("orders", event)


def add_by_other(count: int) -> Call:
    return lambda _, other, __: other.add_partitions("orders", count).settings.partitions


def drop_and_create(_: None) -> Call:
    def call(log: Log, _: Log, __: FakeClock) -> str:
        log.drop_topic("orders")
        return log.create_topic("orders").name

    return call


def advance(seconds: float) -> Call:
    return lambda _, __, clock: clock.advance(seconds)


VALUES = EVENTS | st.sampled_from([b"bytes", None, 7, "text", [sl.Event("k")]])
CALLS = st.one_of(
    st.builds(append, st.just("orders"), EVENTS, st.just({})),
    st.builds(append, st.just("orders"), EVENTS, st.sampled_from(TERMS)),
    st.builds(append, st.sampled_from(["orders", "nothing", None, 7, []]), VALUES, st.just({})),
    st.builds(append_as_topic, EVENTS, st.sampled_from(TERMS[:4])),
    st.builds(append_many, st.lists(EVENTS, max_size=4), st.sampled_from(TERMS[:5])),
    st.builds(append_many, st.lists(VALUES, max_size=2) | VALUES, st.sampled_from(TERMS)),
    st.builds(append_by_other, EVENTS),
    st.builds(add_by_other, st.sampled_from([1, 2, 3])),
    st.builds(drop_and_create, st.none()),
    st.builds(advance, st.sampled_from([0.25, 1.0, ROUTE_DELAY_S])),
)


def outcome(call: Call, log: Log, other: Log, clock: FakeClock) -> Any:
    """Return what a caller sees."""
    try:
        found = call(log, other, clock)
    except StrandlineError as error:
        # What follows is the folder of this run.
        return type(error), str(error).partition(f"'{tempfile.gettempdir()}")[0]
    return [shown(each) for each in found] if isinstance(found, list) else shown(found)


def shown(found: Any) -> Any:
    if not isinstance(found, sl.Receipt):
        return found
    return found.partition, found.offset, found.timestamp_us, found.is_repeat, found.level


def run(calls: list[Call], *, exclusive: bool, core: bool) -> tuple[list[Any], Any]:
    """Return what each call came to; and what is stored and counted in the end."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(compiled_lane, "IS_COMPILED", core)
        patch.setattr(shortcuts, "IS_COMPILED", core)
        clock = FakeClock()
        options: dict[str, Any] = {"clock": clock, "record_bytes_max": 2_000}
        log = file_log(f"{folder}/log", **options, exclusive=exclusive)
        with log:
            log.create_topic("orders")
            other = log if exclusive else file_log(f"{folder}/log", **options)
            with other:
                outcomes = [outcome(call, log, other, clock) for call in calls]
                counted = log.metrics()
                assert counted.writes is not None or not counted.appends
                totals = (counted.appends, counted.records, counted.bytes)
                applied = counted.writes and counted.writes.applied
        segments = sorted(Path(folder).rglob("segments/*"))
        frames = [frames_of(each.read_bytes()) for each in segments]
        return outcomes, (totals, applied, frames)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(CALLS, min_size=3, max_size=12), st.booleans())
def test_any_calls_come_to_the_same(calls: list[Call], exclusive: bool) -> None:
    ours = run(calls, exclusive=exclusive, core=True)
    plain = run(calls, exclusive=exclusive, core=False)

    assert ours == plain
