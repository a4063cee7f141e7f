"""Does it balance? Reads everything back from the files: `-m examples.demo.account <folder>`.

What must be there is worked out again from the seed, with neither log nor Spark. So a run
can be checked again at any time, and an added or removed record is found.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Hashable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import strandline as sl
from examples.demo.pipeline_files import COUNTED, REVENUE
from examples.demo.plan import EXPRESS, PAID, PARTITIONS, SHOP, Plan
from examples.demo.shop import MIDNIGHT, Outcome, day, outcome
from examples.demo.spending import all_spending, open_spending
from strandline.triggers import dead_letters


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the account."""

    name: str
    wanted: int
    found: int
    lost: int
    repeated: int
    unknown: int

    @property
    def balances(self) -> bool:
        return not (self.lost or self.repeated or self.unknown)


def line(name: str, wanted: AbstractSet[Hashable], found: Counter[Any]) -> Line:
    """Compare what must be there once with what is there."""
    return Line(
        name,
        wanted=len(wanted),
        found=found.total(),
        lost=len(wanted - found.keys()),
        repeated=found.total() - len(found),
        unknown=len(found.keys() - wanted),
    )


def check(plan: Plan) -> list[Line]:
    """Return the account of a run that has ended."""
    wanted = outcome(day(plan))
    with sl.open(plan.url) as log:
        dead_lettered = Counter(each.event.payload["id"] for each in dead_letters(log, SHOP))
        return [
            line("events in the log, hot and cold", wanted.ids, ids(log, SHOP, "id")),
            line("express orders labelled by the trigger", wanted.express, ids(log, EXPRESS, "id")),
            line("broken express orders dead-lettered", wanted.dead_lettered, dead_lettered),
            line("paid orders, joined by Spark", wanted.paid, ids(log, PAID, "order")),
            line("hours and countries in the table", {*wanted.revenue.items()}, revenue(plan)),
            line("customers in the view", {*wanted.spent.items()}, spending(plan, log)),
            line("kinds of events, counted by Spark", *kinds(plan, wanted)),
        ]


def records(log: sl.Log, topic: str) -> Iterator[sl.Record]:
    """Yield every record of a topic."""
    for number in range(PARTITIONS):
        yield from log.read(topic, number, log.marks(topic, number).low)


def ids(log: sl.Log, topic: str, name: str) -> Counter[Any]:
    """Return how often each identity is in a topic."""
    return Counter(record.payload[name] for record in records(log, topic))


def revenue(plan: Plan) -> Counter[Any]:
    """Return the rows of the table that Spark made, as they are expected."""
    found = pq.read_table(plan.path(REVENUE))
    # Spark's Parquet has times without a zone, and its session is in UTC.
    hours = found.column("hour").cast(pa.timestamp("s")).cast(pa.timestamp("s", "UTC")).to_pylist()
    rows = zip(
        hours, *(found.column(name).to_pylist() for name in ("country", "cents")), strict=True
    )
    return Counter(
        ((int((hour - MIDNIGHT).total_seconds()) // 3600, country), cents)
        for hour, country, cents in rows
    )


def spending(plan: Plan, log: sl.Log) -> Counter[Any]:
    """Return what the view answers about each customer."""
    with open_spending(plan, log) as view:
        return Counter(all_spending(view).items())


def kinds(plan: Plan, wanted: Outcome) -> tuple[AbstractSet[Hashable], Counter[Any]]:
    """Return how many events of each kind there must be, and how many Spark has counted."""
    letters = {"o": "order.placed", "d": "order.placed"}
    letters |= {"p": "payment.captured", "s": "shipment.sent"}
    expected = Counter(letters[each[0]] for each in wanted.ids)
    with open(plan.path(COUNTED), encoding="utf-8") as file:
        counted = json.load(file)
    return {*expected.items()}, Counter(counted.items())


def show(console: Console, lines: list[Line]) -> bool:
    """Print the account; whether it balances."""
    shown = Table(title="The account", title_justify="left", title_style="bold")
    shown.add_column("")
    for name in ("expected", "found", "lost", "repeated", "unknown"):
        shown.add_column(name, justify="right")
    for each in lines:
        numbers = (each.wanted, each.found, each.lost, each.repeated, each.unknown)
        style = "" if each.balances else "bold red"
        shown.add_row(each.name, *(f"{number:,}" for number in numbers), style=style)
    console.print(shown)
    lost, repeated = sum(each.lost for each in lines), sum(each.repeated for each in lines)
    balances = all(each.balances for each in lines)
    verdict = "The account balances" if balances else "The account does NOT balance"
    style = "bold green" if balances else "bold red"
    console.print(f"{verdict}: lost {lost}, repeated {repeated}", style=style, highlight=False)
    return balances


def main(folder: str) -> int:
    """Return 0 if the run in this folder balances."""
    if not os.path.exists(os.path.join(folder, "plan.json")):
        raise SystemExit(f"there is no run in {folder}")
    return 0 if show(Console(), check(Plan.load(folder))) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
