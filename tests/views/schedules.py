"""One seeded schedule: writers, readers and an assigner on one view, one line at a time.

The view keeps the list of the offsets it applied, so that every answer shows whether it
was folded without a gap, a repeat or a leftover. `run` raises AssertionError with what
went wrong, and DeadlockError where a thread waits for ever.
"""

import contextlib
import random
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

import strandline as sl
from strandline.log import Log, appending, local_watch, watches
from strandline.stores import memory
from strandline.views import fold, live_view, outcomes, pump, shared_pages
from strandline.writes import waiter
from tests.logs import memory_log
from tests.model.simulation import (
    AbortedError,
    SimulatedClock,
    SimulatedEvent,
    SimulatedLock,
    Simulation,
)

MODULES = (
    *(fold, live_view, outcomes, pump, shared_pages, waiter),
    *(local_watch, watches, memory, appending),
)
PARTITIONS = 2
Offsets = list[int]


class Applied(sl.View[Offsets]):
    """The offsets applied. An odd one is refused if its payload is marked."""

    def initial(self, partition: int) -> Offsets:  # noqa: ARG002 - All begin alike.
        return []

    def apply(self, state: Offsets, record: sl.Record) -> int:
        state.append(record.offset)
        return record.offset

    def encode(self, state: Offsets) -> bytes:
        return msgspec.json.encode(state)

    def decode(self, stored: bytes) -> Offsets:
        return msgspec.json.decode(stored, type=Offsets)


class SimulatedRLock:
    """A lock that its holder may take again."""

    def __init__(self, simulation: Simulation) -> None:
        self._lock = SimulatedLock(simulation)
        self._owner: int | None = None
        self._depth = 0

    def __enter__(self) -> None:
        me = threading.get_ident()
        if self._owner != me:
            self._lock.acquire()
            self._owner = me
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
            self._lock.release()

    def notify(self) -> None:
        """Do what a condition over this lock does, with no waiters."""
        if self._owner != threading.get_ident():
            raise RuntimeError


class SimulatedThread:
    """A thread of the simulation."""

    def __init__(self, simulation: Simulation, target: Callable[[], None], name: str) -> None:
        self._simulation = simulation
        self._target = target
        self._name = name
        self._is_done = False

    def start(self) -> None:
        self._simulation.spawn(self._name, self._run)

    def join(self, timeout_s: float | None = None) -> None:
        self._simulation.block(lambda: self._is_done, timeout_s)

    def is_alive(self) -> bool:
        return not self._is_done

    def _run(self) -> None:
        try:
            self._target()
        finally:
            self._is_done = True


class Threading:
    """Stands in for the module `threading`."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.current_thread = threading.current_thread

    def Lock(self) -> SimulatedLock:  # noqa: N802 - As in threading.
        return SimulatedLock(self._simulation)

    def RLock(self) -> SimulatedRLock:  # noqa: N802 - As in threading.
        return SimulatedRLock(self._simulation)

    def Condition(self, lock: SimulatedRLock) -> SimulatedRLock:  # noqa: N802 - As in threading.
        return lock

    def Event(self) -> SimulatedEvent:  # noqa: N802 - As in threading.
        return SimulatedEvent(self._simulation)

    def Thread(  # noqa: N802
        self, *, target: Callable[..., None], name: str, args: tuple[Any, ...] = (), **_: Any
    ) -> SimulatedThread:
        return SimulatedThread(self._simulation, lambda: target(*args), name)


class Schedule:
    """One run of everything."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.simulation = Simulation(seed, "strandline/views", AbortedError)
        self._snapshot = folder / f"{seed}.snapshot"
        self._floors: dict[int, int] = {}
        self._busy = 0
        self._log: Log
        self._view: sl.LiveView[Offsets]

    def run(self) -> None:
        """Run it; raise the first failure."""
        simulated = Threading(self.simulation)
        with self.simulation.replacing_threading_in(*MODULES, by=simulated):
            clock = SimulatedClock(self.simulation)
            self._log = memory_log(clock=clock)
            self._log.create_topic("numbers", partitions=PARTITIONS)
            self.simulation.spawn("main", lambda: self._main(clock))
            self.simulation.run()

    def _main(self, clock: SimulatedClock) -> None:
        self._view = sl.LiveView(
            self._log,
            "numbers",
            Applied(),
            snapshot=self._snapshot,
            snapshot_interval_s=self.random.choice([0.3, 1.0, 60.0]),
            clock=clock,
        )
        self._reconcile(range(PARTITIONS))
        actors = [self._publish, self._publish, self._append, self._read, self._read]
        for number, actor in enumerate([*actors, self._assign]):
            self._busy += 1
            self.simulation.spawn(f"{actor.__name__}{number}", self._counted(actor))
        self.simulation.block(lambda: not self._busy)
        self._finish()

    def _counted(self, actor: Callable[[], None]) -> Callable[[], None]:
        def act() -> None:
            try:
                actor()
            finally:
                self._busy -= 1

        return act

    # --- the actors ---

    def _publish(self) -> None:
        for _ in range(6):
            partition = self.random.randrange(PARTITIONS)
            try:
                done = self._view.publish(sl.Event("n", None), partition=partition, timeout_s=50.0)
            except (sl.InvalidError, sl.UnavailableError):
                continue
            offset = done.receipt.offset
            assert done.outcome == offset, f"outcome of {done.outcome} for {offset}"
            with contextlib.suppress(sl.NotReadyError):
                state = self._view.read(partition, list)
                assert state is None or offset in state, "a published record is not visible"

    def _append(self) -> None:
        for _ in range(6):
            self._log.append("numbers", sl.Event("n", None))
            self.simulation.sleep(self.random.choice([0.0, 0.05]))

    def _read(self) -> None:
        for _ in range(12):
            partition = self.random.randrange(PARTITIONS)
            floor = self._floors.get(partition, 0)
            with contextlib.suppress(sl.NotReadyError):
                state = self._view.read(partition, list)
                if state is not None:
                    assert state == list(range(len(state))), f"not a fold: {state}"
                    assert len(state) >= floor, f"ready at {len(state)}, assigned at {floor}"
            self.simulation.sleep(self.random.choice([0.0, 0.01, 0.2]))

    def _assign(self) -> None:
        for _ in range(6):
            act = self.random.randrange(6)
            if act == 0:
                self._view.rebuild()
            elif act == 1:
                self._view.save()
            else:
                chosen = [p for p in range(PARTITIONS) if self.random.random() < 0.6]
                self._reconcile(chosen)
            self.simulation.sleep(self.random.choice([0.0, 0.02, 0.3]))

    def _reconcile(self, partitions: "range | list[int]") -> None:
        new = set(partitions) - set(self._view.assigned())
        floors = {p: self._log.marks("numbers", p).high for p in new}
        self._view.reconcile(partitions)
        self._floors.update(floors)

    def _finish(self) -> None:
        self._reconcile(range(PARTITIONS))
        self._view.wait_ready(100.0)
        for partition in range(PARTITIONS):
            end = self._log.marks("numbers", partition).high
            self._view.wait_applied(partition, end - 1, 100.0)
            assert self._view.read(partition, list) == list(range(end))
        self._view.close()
        for partition in range(PARTITIONS):
            assert self._view.committed(partition) == self._view.applied(partition)
        self._log.close()


def run(seed: int) -> None:
    """Run one schedule; raise the first failure."""
    with tempfile.TemporaryDirectory() as folder:
        Schedule(seed, Path(folder)).run()
