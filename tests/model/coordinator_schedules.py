"""One seeded schedule: random producers, pauses, failures, brackets and a stop on a coordinator.

The store below keeps what a reader of it could see, and reports when the
coordinator breaks one of its own rules. `run` raises AssertionError with what
went wrong.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from strandline.values import (
    ClosedError,
    Durability,
    FailedError,
    InvalidError,
    StrandlineError,
    UnavailableError,
    UnknownError,
)
from strandline.writes import (
    Channel,
    Coordinator,
    Settings,
    Subscriber,
    WriteReceipt,
    WriteView,
    coordinator,
    drain,
    gathering,
    rounds,
    stage,
    standby,
    storage,
    subscriber,
    waiter,
)
from tests.model.simulation import SimulatedClock, Simulation

APPLIED, WRITTEN, DURABLE = Durability
MODULES = (coordinator, drain, gathering, rounds, stage, standby, storage, subscriber, waiter)

#: An applied write as the store sees it: its epoch and its name.
Row = tuple[int, str]
Rows = tuple[Row, ...]


class Interrupt(BaseException):
    """Stands for a KeyboardInterrupt that hits the thread that drains."""


@dataclass
class Write:
    """A write with its own name, and what `apply` shall do with it."""

    name: str
    channel: str
    poison: type[BaseException] | None = None


@dataclass
class Attempt:
    """What a producer knows of one write."""

    write: Write
    receipt: WriteReceipt[int] | None = None
    outcome: str = "unknown"
    reached: Durability | None = None


class Delta:
    """Rows applied since the last freeze. The context is the last epoch."""

    def __init__(self, store: "Store", epoch: int) -> None:
        self._store = store
        self._epoch = epoch
        self._rows: list[Row] = []

    def apply(self, write: Write) -> int:
        self._store.simulation.step()
        self._epoch += 1
        self._store.epoch = self._epoch
        if write.poison is not None:
            raise write.poison(write.name)
        self._rows.append((self._epoch, write.name))
        self._store.applied.append((self._epoch, write.name))
        return self._epoch

    def size(self) -> int:
        return 10 * len(self._rows)

    def freeze(self) -> tuple[Rows, int]:
        return tuple(self._rows), self._epoch

    def reader(self) -> Rows:
        return tuple(self._rows)


@dataclass
class Store:
    """Flusher and bracket over one list of rows, with planned failures."""

    simulation: Simulation
    fail_flush: int = 0
    fail_sync: int = 0
    fail_enter: int = 0
    fail_leave: int = 0
    applied: list[Row] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    ranges: list[range] = field(default_factory=list)
    synced: int = 0
    epoch: int = 0
    is_held: bool = False
    busy: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)

    def flush(self, frozen: Rows, epochs: range) -> Rows:
        with self._alone("flush", self.fail_flush):
            self._expect(bool(frozen), "an empty delta was flushed")
            start = self.ranges[-1].stop if self.ranges else 1
            self._expect(epochs.start == start, "ranges have a gap")
            self._expect(all(e in epochs for e, _ in frozen), "a row outside its range")
            self._latency()
        self.rows.extend(frozen)
        self.ranges.append(epochs)
        return tuple(self.rows)

    def sync(self) -> None:
        covered = len(self.rows)
        with self._alone("sync", self.fail_sync):
            self._latency()
        self.synced = covered

    def enter(self, timeout_s: float, *, may_wait: bool = True) -> int:
        assert may_wait or timeout_s == 0
        if not self.simulation.block(lambda: not self.is_held, timeout_s):
            raise UnavailableError("another process holds the store")
        self._count("enter", self.fail_enter)
        self.is_held = True
        return self.epoch

    def leave(self) -> None:
        self._expect(self.is_held, "left a bracket that was not entered")
        self.is_held = False
        self._count("leave", self.fail_leave)

    @contextlib.contextmanager
    def _alone(self, name: str, failing: int) -> Iterator[None]:
        self._expect(name not in self.busy, f"two threads are inside {name}")
        self._expect(name not in self.dead, f"{name} was called again after it had failed")
        self.busy.add(name)
        try:
            yield
            self._count(name, failing)
        except OSError:
            self.dead.add(name)
            raise
        finally:
            self.busy.remove(name)

    def _expect(self, holds: bool, rule: str) -> None:
        if not holds:
            # Kept apart, since the coordinator takes it for a failing store.
            self.simulation.errors.append(AssertionError(rule))
            raise AssertionError(rule)

    def _count(self, name: str, failing: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
        if self.counts[name] == failing:
            raise OSError(f"planned failure of {name}")

    def _latency(self) -> None:
        if self.simulation.random.random() < 0.7:
            self.simulation.sleep(self.simulation.random.choice([0.001, 0.01, 0.1]))


TheCoordinator = Coordinator[Write, int, Rows, Rows, Rows, int]
TheView = WriteView[Rows, Rows, Rows]


class Schedule:
    """The threads of one schedule, what they saw, and the rules it must keep."""

    def __init__(self, seed: int) -> None:
        self.simulation = Simulation(seed, "strandline/writes", Interrupt)
        self.random = self.simulation.random
        self.store = self._new_store()
        self.is_bracketed = self.random.random() < 0.35
        self.gathers = seed % 4 == 3
        self.names = ["a", "b", "c"][: self.random.randint(1, 3)]
        self.attempts: list[Attempt] = []
        self.stop_error: StrandlineError | None = None
        self.is_drained = True
        self.is_durable = True
        self.producing = 0
        self.last_version: int | None = None
        self.marks = dict.fromkeys(Durability, 0)

    def run(self) -> None:
        """Run it and check everything."""
        with self.simulation.replacing_threading_in(*MODULES):
            self.coordinator = self._new_coordinator()
            for number in range(self.random.randint(1, 4)):
                self.simulation.spawn(f"producer {number}", self._producer(number))
            if self.random.random() < 0.5:
                self.simulation.spawn("pauser", self._pause)
            if self.random.random() < 0.5:
                self.simulation.spawn("observer", self._observe)
            if self.random.random() < 0.5:
                self.simulation.spawn("subscriber", self._subscribe)
            if self.is_bracketed and self.random.random() < 0.6:
                self.simulation.spawn("other", self._other_process)
            self.simulation.spawn("stopper", self._start_and_stop)
            self.simulation.run()
            self.simulation.spawn("checker", self._check_end)
            self.simulation.restart()

    def _new_store(self) -> Store:
        def planned(chance: float) -> int:
            return self.random.randint(1, 4) if self.random.random() < chance else 0

        return Store(self.simulation, planned(0.15), planned(0.1), planned(0.1), planned(0.1))

    def _new_coordinator(self) -> TheCoordinator:
        settings = Settings(
            queue_capacity=self.random.choice([1, 2, 5]),
            flush_interval_s=self.random.choice([0.05, 1.0, 100.0]),
            flush_bytes=self.random.choice([20, 50, 10_000]),
            frozen_bytes_max=self.random.choice([30, 10_000]),
            bracket_timeout_s=self.random.choice([0.05, 5.0]),
        )
        return Coordinator(
            settings,
            self.names,
            context=0,
            snapshot=(),
            delta=lambda epoch: Delta(self.store, epoch),
            flusher=self.store,
            bracket=self.store if self.is_bracketed else None,
            gathers=self.gathers,
            clock=SimulatedClock(self.simulation),
        )

    # --- the threads ---

    def _producer(self, number: int) -> Callable[[], None]:
        def produce() -> None:
            self.producing += 1
            for turn in range(self.random.randint(1, 5)):
                channel = self.coordinator.channel(self.random.choice(self.names))
                if self.random.random() < 0.2:
                    self._flush(channel)
                else:
                    self._write(channel, f"{number}.{turn}")
                self._check_marks()
                if self.random.random() < 0.3:
                    self.simulation.sleep(self.random.choice([0.01, 0.2]))
            self.producing -= 1

        return produce

    def _write(self, channel: Channel[Write, int], name: str) -> None:
        poison = self.random.choices([None, ValueError, Interrupt], [85, 13, 2])[0]
        attempt = Attempt(Write(name, channel.name, poison))
        self.attempts.append(attempt)
        level = self.random.choice([APPLIED, WRITTEN, DURABLE])
        timeout_s = self.random.choice([None, None, None, 0.02, 3.0])
        try:
            if self.random.random() < 0.3:
                accept = self.random.choice([channel.try_write, channel.hand_over])
                attempt.receipt = accept(attempt.write, timeout_s)
            else:
                at_once = self.random.choice([APPLIED, level])
                attempt.receipt = channel.write(attempt.write, at_once, timeout_s)
                self._reached(attempt, at_once)
            if self.random.random() < 0.8:
                attempt.receipt.wait(level, timeout_s)
                self._reached(attempt, level, applied=True)
        except UnavailableError as error:
            if error.write is not None:
                self._expect(error.write is attempt.write, "the write of another caller came back")
                attempt.outcome = "handed back"
        except InvalidError:
            assert poison is ValueError, "a good write was refused"
            attempt.outcome = "rejected"
        except UnknownError:
            attempt.outcome = "unknown"
        except (ClosedError, FailedError) as error:
            if attempt.receipt is None:
                attempt.outcome = type(error).__name__
        except Interrupt:
            attempt.outcome = "unknown"

    def _reached(self, attempt: Attempt, level: Durability, *, applied: bool = False) -> None:
        """At this moment the store must hold what the caller was promised."""
        if level is APPLIED and not applied:
            return
        attempt.reached = level
        names = [name for _, name in self.store.rows]
        if level is not APPLIED or self.is_bracketed:
            assert attempt.write.name in names, (
                "acknowledged as written, but it is not in the store"
            )
        if level is DURABLE:
            synced = names[: self.store.synced]
            assert attempt.write.name in synced, "acknowledged as durable before a sync covered it"

    def _flush(self, channel: Channel[Write, int]) -> None:
        before = [
            attempt
            for attempt in self.attempts
            if attempt.write.channel == channel.name and attempt.reached is not None
        ]
        durable = self.random.random() < 0.5
        with contextlib.suppress(ClosedError, FailedError, UnavailableError, Interrupt):
            receipt = channel.flush(durable=durable)
            if self.random.random() < 0.7:
                receipt.wait(DURABLE if durable else WRITTEN, self.random.choice([None, 5.0]))
                for attempt in before:
                    self._reached(attempt, DURABLE if durable else WRITTEN, applied=True)

    def _pause(self) -> None:
        channel = self.coordinator.channel(self.random.choice(self.names))
        with contextlib.suppress(Interrupt):
            for _ in range(self.random.randint(1, 3)):
                channel.pause()
                self.simulation.sleep(self.random.choice([0.01, 0.3]))
                channel.resume()
                self.simulation.sleep(0.05)

    def _observe(self) -> None:
        for _ in range(6):
            self._check_view(self.coordinator.view())
            self._check_marks()
            self.simulation.sleep(self.random.choice([0.001, 0.05]))

    def _subscribe(self) -> None:
        following: Subscriber[Rows, Rows, Rows] = self.coordinator.subscribe()
        view = following.initialize()
        self._check_view(view)
        version, seen = view.version, 0
        try:
            while True:
                update = following.recv()
                assert update.view.version > version, "a view came twice or out of order"
                version, seen = update.view.version, seen + 1 + update.missed
                self._check_view(update.view)
                following.monitor.report(WRITTEN, seen)
                if self.random.random() < 0.3:
                    self.simulation.sleep(0.2)
        except ClosedError:
            self.last_version = version
        except FailedError:
            assert following.monitor.epoch(WRITTEN) == seen

    def _other_process(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.simulation.block(lambda: not self.store.is_held)
            self.store.is_held = True
            self.simulation.sleep(self.random.choice([0.01, 0.2, 8.0]))
            self.store.is_held = False
            self.simulation.sleep(0.01)

    def _start_and_stop(self) -> None:
        if self.random.random() < 0.9:
            self.simulation.sleep(self.random.choice([0.0, 0.02]))
            with contextlib.suppress(Interrupt, FailedError):
                self.coordinator.start()
            if self.random.random() < 0.3:
                self._check_that_nothing_lies_about()
        self.simulation.sleep(self.random.choice([0.0, 0.05, 2.0, 20.0]))
        self.is_drained = self.random.random() < 0.8
        self.is_durable = self.random.random() < 0.8
        timeout_s = self.random.choice([None, None, 0.01, 100.0])
        try:
            while not self._is_stopped(timeout_s):
                timeout_s = 100.0
        except FailedError as error:
            self.stop_error = error
        except Interrupt:
            with contextlib.suppress(FailedError):
                self.coordinator.stop()
            self.stop_error = FailedError(Interrupt())

    def _is_stopped(self, timeout_s: float | None) -> bool:
        try:
            self.coordinator.stop(
                drain=self.is_drained, durable=self.is_durable, timeout_s=timeout_s
            )
        except UnavailableError:
            assert timeout_s == 0.01, "a stop gave up on a thread that never ends"
            return False
        assert not self.store.busy, "stopped while the flusher is at work"
        return True

    # --- the rules ---

    @staticmethod
    def _expect(holds: bool, rule: str) -> None:
        assert holds, rule

    def _check_marks(self) -> None:
        before = dict(self.marks)
        durable = self.coordinator.epoch(DURABLE)
        written = self.coordinator.epoch(WRITTEN)
        applied = self.coordinator.epoch(APPLIED)
        assert durable <= written <= applied, "the levels are out of order"
        for level, mark in zip(Durability, (applied, written, durable), strict=True):
            assert mark >= before[level], f"the mark of {level} went back"
            self.marks[level] = max(mark, self.marks[level])

    def _check_view(self, view: TheView) -> None:
        """A view holds every successful write up to its epoch, once, and no other."""
        rows = list(view.snapshot)
        for stamped in reversed(view.frozen):
            rows.extend(stamped.value)
        rows.extend(view.current)
        source = self.store.rows if self.is_bracketed else self.store.applied
        assert rows == [row for row in source if row[0] <= view.applied], "a view lacks a write"

    def _check_that_nothing_lies_about(self) -> None:
        """What is queued is applied or handed back without another call."""
        self.simulation.sleep(5.0)
        channels = [self.coordinator.channel(name) for name in self.names]
        heads = [channel.head() for channel in channels]
        self.simulation.sleep(100.0)
        assert not self.producing, "a producer waits without need"
        for channel, head in zip(channels, heads, strict=True):
            assert head is None or channel.head() is not head, "a write lies in its queue"

    def _check_end(self) -> None:
        names = [name for _, name in self.store.rows]
        assert len(names) == len(set(names)), "a write was stored twice"
        epochs = [epoch for epoch, _ in self.store.rows]
        assert epochs == sorted(set(epochs)), "the store is out of order"
        for attempt in self.attempts:
            self._check_outcome(attempt, names)
        self._check_order()
        self._check_ending(names)
        view = self.coordinator.view()
        self._check_view(view)
        assert self.last_version in {None, view.version}, "a subscriber missed the last view"
        metrics = self.coordinator.metrics()
        assert not any(metrics.queue_depth.values()), "a write is still queued after the stop"
        assert sum(metrics.flushes.values()) >= len(self.store.ranges)

    def _check_outcome(self, attempt: Attempt, names: list[str]) -> None:
        if attempt.outcome in {"handed back", "rejected", "ClosedError", "FailedError"}:
            assert attempt.write.name not in names, f"stored in spite of {attempt.outcome}"
        if attempt.receipt is None:
            return
        try:
            epoch = attempt.receipt.wait(APPLIED, 1.0)
        except UnavailableError as error:
            self._expect(error.write is not None, "a write has no outcome after the stop")
        except StrandlineError:
            pass
        else:
            assert attempt.outcome == "unknown", f"applied in spite of {attempt.outcome}"
            assert (epoch, attempt.write.name) in self.store.applied
            if self.stop_error is None:
                assert attempt.write.name in names, "accepted, but lost at the stop"

    def _check_order(self) -> None:
        """Writes of one producer to one channel keep their order."""
        placed = {name: place for place, (_, name) in enumerate(self.store.rows)}
        last: dict[tuple[str, str], int] = {}
        for attempt in self.attempts:
            name = attempt.write.name
            if name in placed:
                line = (attempt.write.channel, name.split(".")[0])
                assert placed[name] > last.get(line, -1), "a producer's writes changed places"
                last[line] = placed[name]

    def _check_ending(self, names: list[str]) -> None:
        failed = bool(self.store.dead) or self.stop_error is not None
        assert failed == (self.stop_error is not None), "stop hid a failure"
        if self.stop_error is None and self.is_durable:
            assert self.store.synced == len(names), "stopped without a sync"
        late = Write("late", self.names[0])
        try:
            self.coordinator.channel(self.names[0]).write(late).wait()
        except (ClosedError, FailedError) as error:
            is_right = isinstance(error, FailedError) == (self.stop_error is not None)
            self._expect(is_right, "reported failed after a clean stop, or the other way round")
        else:
            raise AssertionError("a write was accepted after the stop")


def run(seed: int) -> None:
    """Run the schedule of `seed`."""
    Schedule(seed).run()
