"""Predicates beside pyarrow's own calls for the same question."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.entry import Contender, Entry, now
from strandline.predicates import matches_each, parse_predicate

REGIONS = ("eu", "us", "apac", "latam", "mea")
WHERE = "amount > 500 AND region = 'eu'"
PREDICATES = 50


def orders(rows: int) -> pa.RecordBatch:
    """Return a batch of orders, the same each time."""
    random = Random(5)
    return pa.record_batch(
        {
            "id": pa.array(range(rows), pa.int64()),
            "amount": pa.array([random.randrange(1000) for _ in range(rows)], pa.int64()),
            "region": pa.array([random.choice(REGIONS) for _ in range(rows)]),
            "price": pa.array([random.random() for _ in range(rows)], pa.float64()),
        }
    )


# --- one predicate ---


def filtering(_: Path, *, rows: int, calls: int) -> Mapping[str, Contender]:
    """Return a predicate that filters a batch, beside the same filter written by hand."""
    batch = orders(rows)
    predicate = parse_predicate(WHERE, batch.schema)
    assert predicate.filter(batch).equals(_by_hand(batch, 500, "eu"))
    return {
        "ours": partial(_repeat, calls, lambda: predicate.filter(batch)),
        "pyarrow": partial(_repeat, calls, lambda: _by_hand(batch, 500, "eu")),
    }


def _by_hand(batch: pa.RecordBatch, amount: int, region: str) -> pa.RecordBatch:
    is_large = pc.greater(batch.column("amount"), amount)
    return batch.filter(pc.and_kleene(is_large, pc.equal(batch.column("region"), region)))


def _repeat(calls: int, call: Callable[[], object]) -> float:
    started = now()
    for _ in range(calls):
        call()
    return calls / (now() - started)


# --- many predicates ---


def routing(_: Path, *, rows: int, calls: int) -> Mapping[str, Contender]:
    """Return fifty predicates in one pass that says who gets which rows, and fifty filters."""
    batch = orders(rows)
    asked = [(n * 1000 // PREDICATES, REGIONS[n % len(REGIONS)]) for n in range(PREDICATES)]
    predicates = [
        parse_predicate(f"region = '{region}' AND amount > {amount}", batch.schema)
        for amount, region in asked
    ]
    found = matches_each(predicates, batch)
    assert [mask.true_count for mask in found] == [
        _by_hand(batch, *each).num_rows for each in asked
    ]
    return {
        "ours": partial(_repeat, calls, lambda: matches_each(predicates, batch)),
        "single": partial(_repeat, calls, lambda: _each_by_hand(batch, asked)),
    }


def _each_by_hand(batch: pa.RecordBatch, asked: Sequence[tuple[int, str]]) -> list[pa.RecordBatch]:
    return [_by_hand(batch, amount, region) for amount, region in asked]


ENTRIES = (
    Entry(
        name="trigger.predicate.row",
        unit="batches/s",
        contenders=partial(filtering, rows=1, calls=5_000),
        bars={"pyarrow": 0.7},
        rounds=5,
    ),
    Entry(
        name="trigger.predicate.million",
        unit="batches/s",
        contenders=partial(filtering, rows=1_000_000, calls=10),
        bars={"pyarrow": 0.7},
        rounds=5,
    ),
    Entry(
        name="trigger.predicates.fifty",
        unit="batches/s",
        contenders=partial(routing, rows=1_000, calls=50),
        bars={"single": 4.0},
        rounds=5,
    ),
)
