"""Tells what came of a run: the account, the steps, the files, the picture."""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from examples.demo import account, chart
from examples.demo.account import Line
from examples.demo.driver import SparkDriver
from examples.demo.gauges import Gauges
from examples.demo.pipeline_files import REVENUE, SPARK_LOG
from examples.demo.plan import Plan
from examples.demo.shop import Outcome
from examples.demo.spending import Desk
from examples.demo.tail import Tail
from strandline.tiering import TierReport

PICTURE, TERMINAL, DEMO_LOG = "run.png", "terminal.svg", "demo.log"


@dataclass(frozen=True, slots=True)
class Findings:
    """What a run has left."""

    wanted: Outcome
    lines: list[Line]
    tail: Tail
    desk: Desk
    report: TierReport
    gauges: Gauges
    driver: SparkDriver
    steps: Mapping[str, float]
    produced: Mapping[str, int]


def show(console: Console, plan: Plan, found: Findings) -> bool:
    """Print the findings and the chart, save both; return whether the account balances."""
    _show_what_happened(console, found)
    is_balanced = account.show(console, found.lines)
    for complaint in complaints(found):
        console.print(complaint, style="bold red")
        is_balanced = False
    _show_steps(console, found)
    drawn = chart.curves(found.gauges.samples, found.gauges.marks)
    for text, colour in chart.in_terminal(drawn):
        console.print(Text(text, style=colour))
    chart.save_png(drawn, plan.path(PICTURE), f"A day of a shop, {plan.events:,} events")
    _show_files(console, plan)
    _save_terminal(console, plan.path(TERMINAL))
    return is_balanced


def complaints(found: Findings) -> list[str]:
    """Return what is wrong beside the account."""
    wrong = [*found.desk.wrong]
    if found.tail.gaps or found.tail.seen != len(found.wanted.ids):
        wrong.append(f"the tail saw {found.tail.seen:,} events and {found.tail.gaps} gaps")
    if found.driver.killed_at is None:
        wrong.append("Spark was done before it was killed")
    absorbed = found.wanted.offered - len(found.wanted.ids)
    if found.produced["repeats"] != absorbed:
        wrong.append(f"{found.produced['repeats']:,} repeats were recognised, not {absorbed:,}")
    return wrong


def _show_what_happened(console: Console, found: Findings) -> None:
    wanted, tail = found.wanted, found.tail
    labels, dead_lettered, paid = (each.found for each in found.lines[1:4])
    lines = {
        "events in": f"{wanted.offered:,} offered by two processes and a desk, "
        f"{found.produced['repeats']:,} of them a second time and recognised; {wanted.late:,} came "
        f"late, {wanted.broken:,} were broken",
        "events out": f"{tail.seen + labels + dead_lettered + paid:,}: {tail.seen:,} to the tail, "
        f"{labels:,} labels, {dead_lettered:,} dead letters, {paid:,} paid orders",
        "tail": f"{tail.seen:,} live, {tail.gaps} gaps; from append to reader "
        f"{tail.latency_ms(0.5):.1f} ms at the median, 99 of 100 within "
        f"{tail.latency_ms(0.99):.0f} ms",
        "view": f"asked {found.desk.asked} times right after an order; "
        f"{len(found.desk.wrong)} answers lacked it",
        "tier": f"{found.report.evicted_records:,} records in {found.report.copied} Parquet "
        f"objects, {found.report.copied_bytes / 1e6:.1f} MB, read through the log as before",
        "Spark": "killed in the middle with SIGKILL, and restarted from its checkpoint; "
        f"micro-batches that it had begun and did again: {len(found.driver.unfinished)}",
    }
    if found.driver.given_up:
        lines["Spark"] += (
            f"; on so busy a machine it gave up {found.driver.given_up} times by itself"
        )
    shown = Table.grid(padding=(0, 2, 0, 0))
    shown.add_column(style="bold", no_wrap=True)
    shown.add_column()
    for name, text in lines.items():
        shown.add_row(name, text)
    console.print()
    console.print(shown)
    console.print()


def _show_steps(console: Console, found: Findings) -> None:
    slowest = max(found.steps, key=lambda name: found.steps[name])
    console.print()
    for name, took_s in found.steps.items():
        note = "  the slowest step" if name == slowest else ""
        console.print(f"{took_s:7.1f} s  {name}[bold]{note}[/]")
    console.print(f"{sum(found.steps.values()):7.1f} s  in all")
    console.print()


def _show_files(console: Console, plan: Plan) -> None:
    console.print()
    names = {
        **({} if plan.elsewhere else {"the log": "events"}),
        "Parquet": "cold",
        "the table": REVENUE,
        "the picture": PICTURE,
        "what failed": DEMO_LOG,
        "what Spark said": SPARK_LOG,
    }
    for name, path in names.items():
        console.print(f"[bold]{name:16}[/] {shown(plan.path(path))}", soft_wrap=True)
    where = "$DEMO_URL" if plan.elsewhere else f"file:{shown(plan.path('events'))}"
    program = shown(os.path.join(sys.prefix, "bin", "strandline"))
    console.print(f"[bold]{'open the log':16}[/] {program} console {where}", soft_wrap=True)


def shown(path: str) -> str:
    """Return a path as short as it can be said from here."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def _save_terminal(console: Console, path: str) -> None:
    """Keep what was printed as a picture that fetches no font from anywhere."""
    text = console.export_svg(title="make demo", clear=False, unique_id="demo")
    Path(path).write_text(re.sub(r"\s*@font-face \{.*?\}", "", text, flags=re.DOTALL))
