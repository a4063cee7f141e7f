"""Seeded runs of a consumer of delayed records, which works, fails, ends and is reopened.

Checked: no record is delivered before its time or the end of its delay; a record that was acked
while an earlier one waited is not delivered again; the cursor never passes a record that is not
acked; in the end each record is acked.
"""

import random
from collections.abc import Mapping
from datetime import UTC, datetime

import strandline as sl
from strandline.subscriptions import Delivery
from strandline.testing import FakeClock

_DELAYS_S = (0, 0, 5, 20)


class DelayedRun:
    """One seeded run of a consumer over a log in memory."""

    def __init__(self, seed: int, *, records: int = 40) -> None:
        self.random = random.Random(seed)
        self.clock = FakeClock(seed=seed)
        self.log = sl.open("memory:", clock=self.clock, retention=False)
        self.log.create_topic("jobs")
        self.left = records
        self.commit_every = self.random.choice([None, None, 5])
        self.due: list[float] = []
        self.acked: set[int] = set()
        self.kept: set[int] = set()
        """Acked and stored while an earlier record waited."""
        self.held: dict[int, Delivery] = {}
        self.consumer = self._opened()

    def run(self, steps: int = 120) -> None:
        """Take so many random steps, then work until everything is acked."""
        actions = (self.append, self.take, self.ack, self.nack, self.stall, self.end)
        for _ in range(steps):
            self.random.choices(actions, (4, 6, 6, 2, 3, 1))[0]()
            self.check()
        while self.left:
            self.append()
        for _ in range(200):
            self.take()
            self.ack()
            if len(self.acked) == len(self.due):
                break
            if not self.held:
                self.clock.advance(5)
        self.consumer.commit()
        assert len(self.acked) == len(self.due), "a record was lost"
        assert self._cursor() == len(self.due), "the cursor stays behind"
        self.consumer.close()
        self.log.close()

    # --- what happens ---

    def append(self) -> None:
        if not self.left:
            return
        self.left -= 1
        delay_s = self.random.choice(_DELAYS_S)
        at = datetime.fromtimestamp(self.clock.now_us() / 1_000_000 + delay_s, UTC)
        event = sl.Event("job", {"n": len(self.due)})
        self.log.append("jobs", event, deliver_at=at if delay_s else None)
        self.due.append(self.clock.monotonic() + delay_s)

    def take(self) -> None:
        if self.random.random() < 0.5:
            found = self.consumer.fetch(self.random.choice([1, 4]), timeout_s=0)
        else:
            one = self.consumer.next(0.0)
            found = [] if one is None else [one]
        for each in found:
            offset = each.record.offset
            assert self.due[offset] <= self.clock.monotonic(), f"{offset} came before its time"
            assert offset not in self.kept, f"{offset} was acked, and came again"
            assert offset not in self.held, f"{offset} came twice"
            self.held[offset] = each

    def ack(self) -> None:
        chosen = [each for each in self.held if self.random.random() < 0.7]
        if not chosen:
            return
        self.consumer.ack([self.held.pop(each) for each in chosen])
        self.acked.update(chosen)
        is_one_waiting = any(
            at > self.clock.monotonic()
            for offset, at in enumerate(self.due[: max(chosen)])
            if offset not in self.acked
        )
        if is_one_waiting and self.commit_every is None:
            self.kept.update(chosen)

    def nack(self) -> None:
        if not self.held:
            return
        offset = self.random.choice([*self.held])
        delay_s = self.random.choice(_DELAYS_S)
        is_dead = self.consumer.nack(self.held.pop(offset), delay_s=delay_s)
        assert not is_dead, "there is no limit"
        self.due[offset] = self.clock.monotonic() + delay_s

    def stall(self) -> None:
        """Advance the clock."""
        self.clock.advance(self.random.choice([1, 4, 7]))

    def end(self) -> None:
        """Close the consumer, or drop it unclosed, and open another one."""
        if self.random.random() < 0.5:
            self.consumer.close()
        self.held.clear()
        del self.consumer
        self.consumer = self._opened()

    # --- checks ---

    def check(self) -> None:
        passed = set(range(self._cursor())) - self.acked
        assert not passed, f"the cursor passed {passed}"

    def _cursor(self) -> int:
        return self.log.cursor("jobs", "workers", 0) or 0

    def _opened(self) -> sl.Consumer:
        return sl.Consumer(
            self.log,
            "jobs",
            "workers",
            clock=self.clock,
            deliveries_max=10_000,
            commit_every=self.commit_every,
        )


def failures(seeds: range) -> Mapping[int, str]:
    """Run these seeds; return what went wrong, by seed."""
    wrong = {}
    for seed in seeds:
        try:
            DelayedRun(seed).run()
        except AssertionError as error:
            wrong[seed] = str(error)
    return wrong
