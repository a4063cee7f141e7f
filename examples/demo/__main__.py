"""`make demo`: two producers, a tail, a trigger, a view, a tier and Spark, which is killed once.

Exits with 1 if the account at the end does not balance.
"""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import strandline as sl
from examples.demo import account
from examples.demo.console import open_console
from examples.demo.driver import SparkDriver
from examples.demo.express import express_desk
from examples.demo.gauges import Gauges, count
from examples.demo.onlooker import Onlooker, wait_until
from examples.demo.pipeline_files import ALL_OFFERED
from examples.demo.plan import PARTITIONS, PRODUCERS, SHOP, TOPICS, Plan
from examples.demo.report import DEMO_LOG, Findings, show
from examples.demo.shop import day, outcome
from examples.demo.spending import Desk, open_spending
from examples.demo.tail import Tail
from strandline.tiering import TierReport, tier


def main() -> int:
    """Return 0 if the account balances."""
    # So that whatever was started is ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    plan = Plan.of_environment()
    if os.path.isdir(plan.folder) and not os.path.exists(plan.path("plan.json")):
        raise SystemExit(f"{plan.folder} is there, and is no run of the demo: name another folder")
    shutil.rmtree(plan.folder, ignore_errors=True)
    os.makedirs(plan.folder)
    plan.save()
    logging.basicConfig(filename=plan.path(DEMO_LOG))
    console = Console(record=True, width=100, highlight=False)
    console.print(
        f"A day of a shop, [bold]{plan.events:,}[/] events in about {plan.day_s:.0f} s: orders, "
        "payments and shipments, some of them late, double or broken."
    )
    errors = Console(stderr=True)
    columns = (
        TextColumn("{task.description:34}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=errors, disable=not errors.is_terminal) as bars:
        found = Demo(plan, bars).run()
    return 0 if show(console, plan, found) else 1


class Demo:
    """One run, from an empty folder to the account."""

    def __init__(self, plan: Plan, bars: Progress) -> None:
        self._plan, self._bars = plan, bars
        self._steps: dict[str, float] = {}
        self._wanted = outcome(day(plan))

    def run(self) -> Findings:
        """Do everything, and return what came of it."""
        plan = self._plan
        with ExitStack() as stack:
            log = stack.enter_context(sl.open(plan.url))
            if log.topics():
                raise SystemExit("the log of DEMO_URL has topics already: name one without any")
            for topic in TOPICS:
                log.create_topic(topic, partitions=PARTITIONS)
            view = stack.enter_context(open_spending(plan, log))
            desk_triggers = express_desk(log)
            stack.enter_context(desk_triggers)
            link = stack.enter_context(open_console(log, view, desk_triggers))
            self._bars.console.print(f"Look at it while it runs: {link}")
            driver = stack.enter_context(SparkDriver(plan))
            with self._step("Spark: started"):
                bar = self._bars.add_task("Spark starts", total=None)
                wait_until(driver.is_ready)
                self._bars.update(bar, total=1, completed=1)
            tail = Tail(log)
            gauges = Gauges(log, lambda: tail.seen, view)
            onlooker = Onlooker(
                *(log, self._wanted), tail=tail, gauges=gauges, driver=driver, bars=self._bars
            )
            desk = Desk(view, plan.day_s)
            with self._step("live: two processes append, all follow"):
                self._append(onlooker)
                desk.join()
            with self._step("settle: tail, view and trigger reach the end"):
                onlooker.until(lambda: has_settled(log, gauges))
            with self._step("tier: everything to Parquet"):
                report = self._tier(log)
            gauges.mark("tiered")
            Path(plan.path(ALL_OFFERED)).touch()
            with self._step("Spark: to the end, once all was offered"):
                onlooker.until(driver.is_done)
            gauges.close()
            tail.close()
        with self._step("account: everything read back"):
            lines = account.check(plan)
        return Findings(
            self._wanted,
            lines,
            tail,
            desk,
            report,
            gauges,
            driver,
            self._steps,
            self._producer_counts(),
        )

    def _append(self, onlooker: Onlooker) -> None:
        """Let two processes append the day."""
        begins_at = str(time.time() + 2.0)
        command = [sys.executable, "-m", "examples.demo.producer", self._plan.folder]
        producers = [
            subprocess.Popen([*command, str(number), begins_at], cwd=Path(__file__).parents[2])
            for number in range(PRODUCERS)
        ]
        try:
            onlooker.until(lambda: all(each.poll() is not None for each in producers))
        finally:
            for each in producers:
                each.kill()
        if any(each.wait() for each in producers):
            raise RuntimeError("a producer has failed")

    def _tier(self, log: sl.Log) -> TierReport:
        """Move the topic to Parquet, under the eyes of a stream that reads it."""
        bar = self._bars.add_task("tier to Parquet", total=len(self._wanted.ids))
        report = tier(
            *(log, SHOP, self._plan.store),
            include_open=True,
            local_bytes=0,
            piece_records=max(1_000, self._plan.events // 16),
        )
        self._bars.update(bar, completed=report.evicted_records)
        return report

    def _producer_counts(self) -> dict[str, int]:
        """Return what the producers say they did, added up."""
        counts = {"stored": 0, "repeats": 0}
        for number in range(PRODUCERS):
            with open(self._plan.path(f"producer-{number}.json"), encoding="utf-8") as file:
                for name, found in json.load(file).items():
                    counts[name] += found
        return counts

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._steps[name] = time.monotonic() - began


def has_settled(log: sl.Log, gauges: Gauges) -> bool:
    """Whether all but Spark have handled every record."""
    now = gauges.latest()
    behind = sum(lag for name, lag in now.lags.items() if name != "Spark")
    return now.appended == count(log, SHOP) and not behind


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped. The next run begins from an empty folder.\n")
        sys.exit(130)
