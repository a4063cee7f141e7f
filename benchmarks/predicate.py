"""`predicate.*`: rows and payloads picked by SQL, beside DuckDB in one thread on the same data."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import duckdb
import pyarrow as pa

import strandline as sl
from benchmarks.entry import Contender, Entry, now
from benchmarks.sizes import Sizes
from strandline.predicates import EVENT_COLUMNS, matches_each, parse_predicate

COUNTRIES: Final = ("DE", "FR", "IT", "US", "JP")
TYPED: Final = "amount > 500 AND region = 'DE' AND price < 0.5"
PAYLOAD: Final = "payload.amount > 500 AND payload.customer.country = 'DE'"
PAYLOAD_IN_DUCKDB: Final = (
    "CAST(json_extract(payload, '$.amount') AS DOUBLE) > 500 "
    "AND json_extract_string(payload, '$.customer.country') = 'DE'"
)
MANY: Final = 100
PART: Final = 1000
ROW_US_MAX: Final = 20.0


def _table(rows: int) -> pa.Table:
    random = Random(5)
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "amount": pa.array([random.randrange(1000) for _ in range(rows)], pa.int64()),
            "region": pa.array([random.choice(COUNTRIES) for _ in range(rows)]),
            "price": pa.array([random.random() for _ in range(rows)], pa.float64()),
        }
    )


def _events(rows: int) -> list[sl.Event]:
    random = Random(5)
    return [
        sl.Event(
            "order.created",
            {
                "id": number,
                "amount": random.randrange(1000),
                "customer": {"id": number % 997, "country": random.choice(COUNTRIES)},
                "items": [{"sku": f"A{number % 50}", "count": 1}],
                "note": "as agreed",
            },
        )
        for number in range(rows)
    ]


def _payloads(rows: int) -> pa.Table:
    return pa.table({"payload": pa.array([e.payload_json for e in _events(rows)], pa.string())})


def _as_json(table: pa.Table) -> pa.RecordBatch:
    column = table.column("payload").combine_chunks()
    storage = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    made = pa.ExtensionArray.from_storage(pa.json_(), storage)
    return pa.RecordBatch.from_arrays([made], schema=pa.schema([EVENT_COLUMNS.field("payload")]))


def _typed(_: Path, *, rows: int) -> Mapping[str, Contender]:
    table = _table(rows)
    batch = table.combine_chunks().to_batches()[0]
    predicate = parse_predicate(TYPED, batch.schema)
    ask = _duckdb(table, TYPED)
    assert predicate.filter(batch).num_rows == ask().num_rows
    return {
        "ours": partial(_rate, rows, lambda: predicate.filter(batch)),
        "duckdb": partial(_rate, rows, ask),
    }


def _payload(_: Path, *, rows: int) -> Mapping[str, Contender]:
    table = _payloads(rows)
    batch = _as_json(table)
    predicate = parse_predicate(PAYLOAD, batch.schema)
    ask = _duckdb(table, PAYLOAD_IN_DUCKDB)
    assert predicate.filter(batch).num_rows == ask().num_rows
    return {
        "ours": partial(_rate, rows, lambda: predicate.filter(batch)),
        "duckdb": partial(_rate, rows, ask),
    }


def _duckdb(table: pa.Table, where: str) -> Callable[[], Any]:
    connection = duckdb.connect(config={"threads": 1})
    connection.register("rows", table)
    asked = f"SELECT * FROM rows WHERE {where}"  # noqa: S608 - Our own constant.
    return lambda: connection.execute(asked).to_arrow_table()


def _rate(rows: int, call: Callable[[], object]) -> float:
    started = now()
    call()
    return rows / (now() - started)


def _row(_: Path, *, calls: int) -> Mapping[str, Contender]:
    batch = _table(1).to_batches()[0]
    predicate = parse_predicate(TYPED, batch.schema)
    return {"ours": partial(_call_us, calls, lambda: predicate.matches(batch)), "limit": _limit}


def _row_of_payload(_: Path, *, calls: int) -> Mapping[str, Contender]:
    batch = _as_json(_payloads(1))
    predicate = parse_predicate(PAYLOAD, batch.schema)
    return {"ours": partial(_call_us, calls, lambda: predicate.matches(batch)), "limit": _limit}


def _limit() -> float:
    return ROW_US_MAX


def _call_us(calls: int, call: Callable[[], object]) -> float:
    started = now()
    for _ in range(calls):
        call()
    return (now() - started) * 1e6 / calls


def _hundred(_: Path, *, rows: int) -> Mapping[str, Contender]:
    batch = _as_json(_payloads(rows))
    predicates = [
        parse_predicate(
            f"payload.amount > {n * 1000 // MANY} AND "
            f"payload.customer.country = '{COUNTRIES[n % len(COUNTRIES)]}'",
            batch.schema,
        )
        for n in range(MANY)
    ]
    return {
        "ours": partial(_rate, rows, lambda: matches_each(predicates, batch)),
        "single": partial(_rate, rows, lambda: predicates[0].matches(batch)),
    }


def _subscribers(_: Path, *, rows: int, subscribers: int) -> Mapping[str, Contender]:
    events = _events(rows)
    return {
        "ours": partial(_drained, events, subscribers),
        "single": partial(_drained, events, 1),
    }


def _drained(events: list[sl.Event], subscribers: int) -> float:
    """Append a part at a time, and let each subscription receive what matches of it."""
    spent = 0.0
    with sl.open("memory:") as log:
        log.create_topic("orders")
        readers = [
            log.subscribe("orders", where=f"payload.amount = {n} AND kind = 'order.created'")
            for n in range(subscribers)
        ]
        for at in range(0, len(events), PART):
            log.append_many("orders", events[at : at + PART])
            started = now()
            for each in readers:
                while each.next(timeout_s=0) is not None:
                    pass
            spent += now() - started
    return len(events) / spent


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries, with rounds of these sizes."""
    rows = sizes.predicate_rows
    return (
        Entry(
            name="predicate.typed",
            unit="rows/s",
            contenders=partial(_typed, rows=rows),
            bars={"duckdb": 1.0},
            rounds=5,
        ),
        Entry(
            name="predicate.payload",
            unit="events/s",
            contenders=partial(_payload, rows=rows),
            bars={"duckdb": 0.5},
        ),
        Entry(
            name="predicate.row",
            unit="µs",
            contenders=partial(_row, calls=max(rows // 200, 10)),
            bars={"limit": 1.0},
            rounds=5,
        ),
        Entry(
            name="predicate.row.payload",
            unit="µs",
            contenders=partial(_row_of_payload, calls=max(rows // 200, 10)),
            bars={"limit": 1.0},
            rounds=5,
        ),
        Entry(
            name="predicate.hundred",
            unit="events/s",
            contenders=partial(_hundred, rows=max(rows // 10, 10)),
            bars={"single": 0.2},
        ),
        Entry(
            name="predicate.subscribers",
            unit="events/s",
            contenders=partial(_subscribers, rows=max(rows // 10, 10), subscribers=sizes.eight),
            bars={"single": 0.8},
        ),
    )
