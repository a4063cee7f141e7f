"""Seeded runs of a work queue: members join, work, stall, die and leave while a fake clock moves.

Checked after each step: no record has two valid leases; only the holder of a lease settles a
record, and once; the cursor never goes back and never passes an unsettled record; no record is
delivered that the predicate leaves out, or before its time; with `order="key"` a record is
delivered after all earlier ones of its key that are due, and while no other of its key is held.
"""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import strandline as sl
from strandline.subscriptions import Delivery, SharedConsumer
from strandline.testing import FakeClock
from strandline.triggers import dead_letters

VISIBILITY_S = 10.0
DELIVERIES_MAX = 6


@dataclass
class Held:
    """A delivery that a member holds, and until when its lease is certainly valid."""

    delivery: Delivery
    until: float


@dataclass(eq=False)
class Member:
    """A consumer, and the deliveries that it holds."""

    consumer: SharedConsumer
    held: dict[int, Held] = field(default_factory=dict)


class QueueRun:
    """One seeded run of a queue over a log in memory."""

    def __init__(self, seed: int, *, records: int = 30, members: int = 4) -> None:
        self.random = random.Random(seed)
        self.clock = FakeClock(seed=seed)
        self.log = sl.open("memory:", clock=self.clock)
        self.log.create_topic("jobs")
        self.order: Literal["key"] | None = "key" if self.random.random() < 0.5 else None
        self.keys = [f"k{self.random.randrange(4)}" for _ in range(records)]
        times = random.Random(-1 - seed)
        is_delayed = times.random() < 0.5
        self.due = [is_delayed and times.choice([0, 0, 15, 60]) for _ in range(records)]
        picks = random.Random(-1_000_000 - seed)
        chance = picks.choice([0.0, 0.0, 0.3, 0.9])
        self.left_out = {number for number in range(records) if picks.random() < chance}
        for number, (key, due) in enumerate(zip(self.keys, self.due, strict=True)):
            moment = datetime.fromtimestamp(self.clock.now_us() / 1_000_000 + due, UTC)
            is_wanted = number not in self.left_out
            event = sl.Event("job", {"n": number, "wanted": is_wanted}, key=key)
            self.log.append("jobs", event, deliver_at=moment if due else None)
        self.members_max = members
        self.members: list[Member] = []
        self.settled: set[int] = set()
        self.counts: Counter[int] = Counter()
        self.cursor = 0

    def run(self, steps: int = 150) -> None:
        """Take so many random steps, then work until everything is settled."""
        actions = (self.join, self.fetch, self.ack, self.nack, self.extend, self.stall, self.leave)
        for _ in range(steps):
            self.random.choices(actions, (2, 5, 5, 2, 1, 3, 1))[0]()
            self.check()
        self.finish()
        self.log.close()

    # --- what members do ---

    def join(self) -> None:
        if len(self.members) < self.members_max:
            consumer = self.log.consumer(
                "jobs",
                "workers",
                shared=True,
                order=self.order,
                visibility_s=VISIBILITY_S,
                deliveries_max=DELIVERIES_MAX,
                clock=self.clock,
                where="payload.wanted" if self.left_out else "",
            )
            self.members.append(Member(consumer))

    def fetch(self) -> None:
        if (member := self._any()) is None:
            return
        for delivery in member.consumer.fetch(self.random.choice([1, 3, 8]), timeout_s=0):
            self._on_delivery(member, delivery)

    def ack(self) -> None:
        if (member := self._any()) is None or not member.held:
            return
        offset = self.random.choice([*member.held])
        held = member.held.pop(offset)
        try:
            member.consumer.ack(held.delivery)
        except sl.ConflictError:
            assert held.until <= self.clock.monotonic(), "a holder in time was refused"
            return
        self._on_settled(member, offset)

    def nack(self) -> None:
        if (member := self._any()) is None or not member.held:
            return
        offset = self.random.choice([*member.held])
        held = member.held.pop(offset)
        try:
            is_dead = member.consumer.nack(held.delivery, delay_s=self.random.choice([0, 0, 7]))
        except sl.ConflictError:
            assert held.until <= self.clock.monotonic(), "a holder in time was refused"
            return
        if is_dead:
            assert held.delivery.count >= DELIVERIES_MAX, "dead-lettered before its last try"
            self._on_settled(member, offset)

    def extend(self) -> None:
        if (member := self._any()) is None or not member.held:
            return
        offset = self.random.choice([*member.held])
        held = member.held[offset]
        try:
            member.consumer.extend(held.delivery)
        except sl.ConflictError:
            assert held.until <= self.clock.monotonic(), "a holder in time was refused"
            del member.held[offset]
            return
        held.until = self.clock.monotonic() + VISIBILITY_S

    def stall(self) -> None:
        """Advance the clock, past the end of leases or not."""
        self.clock.advance(self.random.choice([1, 4, 11]))

    def leave(self) -> None:
        """A member closes, or is dropped as if it was killed."""
        if (member := self._any()) is None:
            return
        self.members.remove(member)
        if self.random.random() < 0.5:
            member.consumer.close()

    def finish(self) -> None:
        self.members.clear()
        self.join()
        (member,) = self.members
        for _ in range(400):
            found = member.consumer.fetch(5, timeout_s=0)
            for delivery in found:
                self._on_delivery(member, delivery)
                member.consumer.ack(delivery)
                member.held.pop(delivery.record.offset)
                self._on_settled(member, delivery.record.offset)
            self.check()
            if not found:
                self.clock.advance(VISIBILITY_S)
            if self._cursor() == len(self.keys):
                break
        dead = {letter.record_offset for letter in dead_letters(self.log, "jobs")}
        wanted = set(range(len(self.keys))) - self.left_out
        assert self.settled | dead == wanted, "a record was lost"
        assert self._cursor() == len(self.keys), "the cursor stays behind"

    # --- checks ---

    def check(self) -> None:
        cursor = self._cursor()
        assert cursor >= self.cursor, "the cursor went back"
        self.cursor = cursor
        dead = {letter.record_offset for letter in dead_letters(self.log, "jobs")}
        passed = set(range(cursor)) - self.settled - dead - self.left_out
        assert not passed, f"the cursor passed {passed}"

    def _on_delivery(self, member: Member, delivery: Delivery) -> None:
        offset = delivery.record.offset
        assert offset not in self.left_out, f"{offset} came, which is left out"
        assert offset not in self.settled, f"{offset} was settled, and came again"
        now = self.clock.monotonic()
        assert self.due[offset] <= now, f"{offset} came before its time"
        for each in self.members:
            held = each.held.get(offset)
            assert held is None or held.until <= now, f"{offset} has two holders"
        self.counts[offset] += 1
        assert delivery.count == self.counts[offset], f"a delivery of {offset} was not counted"
        assert delivery.count <= DELIVERIES_MAX, "delivered too often"
        if self.order == "key":
            self._check_order(offset)
        member.held[offset] = Held(delivery, now + VISIBILITY_S)

    def _check_order(self, offset: int) -> None:
        dead = {letter.record_offset for letter in dead_letters(self.log, "jobs")}
        key = self.keys[offset]
        earlier = [each for each in range(offset) if self.keys[each] == key]
        now = self.clock.monotonic()
        waiting = {each for each in earlier if self.due[each] > now}
        open_ones = set(earlier) - self.settled - dead - waiting - self.left_out
        assert not open_ones, f"{offset} came before {open_ones} of its key"
        held = {n for each in self.members for n, held in each.held.items() if held.until > now}
        beside = {each for each in held - {offset} if self.keys[each] == key}
        assert not beside, f"{offset} came while {beside} of its key were held"

    def _on_settled(self, member: Member, offset: int) -> None:
        assert offset not in self.settled, f"{offset} was settled twice"
        now = self.clock.monotonic()
        for each in self.members:
            held = each.held.get(offset)
            is_other = each is not member and held is not None and held.until > now
            assert not is_other, f"{offset} was settled though another member holds it"
        self.settled.add(offset)

    def _cursor(self) -> int:
        return self.log.cursor("jobs", "workers", 0) or 0

    def _any(self) -> Member | None:
        return self.random.choice(self.members) if self.members else None


def failures(seeds: range) -> Mapping[int, str]:
    """Run these seeds; return what went wrong, by seed."""
    wrong = {}
    for seed in seeds:
        try:
            QueueRun(seed).run()
        except AssertionError as error:
            wrong[seed] = str(error)
    return wrong
