"""Looks on while the run goes: moves the bars, and kills Spark at the worst moment."""

import time
from collections.abc import Callable

from rich.progress import Progress

import strandline as sl
from examples.demo.driver import SparkDriver
from examples.demo.gauges import Gauges, count
from examples.demo.plan import PAID, SHOP
from examples.demo.shop import Outcome
from examples.demo.tail import Tail

_STEP_S = 0.02
_WAIT_S_MAX = 900
#: Of the paid orders, once so many are in the topic.
_KILLED_AT = 0.25


def wait_until(is_done: Callable[[], bool], meanwhile: Callable[[], None] | None = None) -> None:
    """Return once something is done, and look at the rest meanwhile; RuntimeError if it is not."""
    ends_at = time.monotonic() + _WAIT_S_MAX
    while not is_done():
        if time.monotonic() > ends_at:
            raise RuntimeError(f"still not done after {_WAIT_S_MAX} s")
        if meanwhile is not None:
            meanwhile()
        time.sleep(_STEP_S)


class Onlooker:
    """Everything that is watched between two steps."""

    def __init__(
        self,
        log: sl.Log,
        wanted: Outcome,
        *,
        tail: Tail,
        gauges: Gauges,
        driver: SparkDriver,
        bars: Progress,
    ) -> None:
        self._log, self._wanted, self._tail = log, wanted, tail
        self._gauges, self._driver, self._bars = gauges, driver, bars
        events = len(wanted.ids)
        self._appended = bars.add_task("two processes append", total=events)
        self._tailed = bars.add_task("tail", total=events)
        self._viewed = bars.add_task("view", total=events)
        self._labelled = bars.add_task("trigger", total=events)
        self._paid = bars.add_task("Spark joins", total=len(wanted.paid))

    def until(self, is_done: Callable[[], bool]) -> None:
        """Look on until something is done."""
        wait_until(is_done, self.look)
        self.look()

    def look(self) -> None:
        """Move the bars; kill the driver, once, as soon as its output has come so far.

        That is when the records of a micro-batch are in the log and Spark does not know
        it yet: it will run the batch again, and the sink must recognise it.
        """
        paid = count(self._log, PAID)
        if self._driver.killed_at is None and paid >= _KILLED_AT * len(self._wanted.paid):
            self._driver.kill()
            self._gauges.mark("killed")
            self._bars.update(self._paid, description="Spark joins (killed, restarted)")
        now = self._gauges.latest()
        self._bars.update(self._appended, completed=count(self._log, SHOP))
        self._bars.update(self._tailed, completed=self._tail.seen, description=self._tail.latest)
        self._bars.update(self._viewed, completed=now.appended - now.lags["view"])
        self._bars.update(self._labelled, completed=now.appended - now.lags["trigger"])
        self._bars.update(self._paid, completed=paid)
