"""A view is always a fold over the log, whatever happens to it."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline as sl
from tests.views.accounts import PATIENCE_S, Accounts, State, catch_up, folded, moved, opened

PARTITIONS = 2

names = st.sampled_from(["ann", "bob", "eve"])
partitions = st.integers(0, PARTITIONS - 1)
events = st.one_of(
    st.builds(opened, names, st.integers(0, 9)),
    st.builds(moved, names, st.integers(-9, 9)),
    st.builds(lambda name: sl.Event("poison", 1, key=name), names),
    st.builds(lambda name: sl.Event("other", 0, key=name), names),
)
steps = st.one_of(
    st.tuples(st.just("append"), partitions, st.lists(events, min_size=1, max_size=5)),
    st.tuples(st.just("reconcile"), st.sets(partitions)),
    st.tuples(st.just("save")),
    st.tuples(st.just("rebuild"), partitions),
    st.tuples(st.just("restart"), st.booleans()),
    st.tuples(st.just("damage"), st.integers(0, 10_000)),
    st.tuples(st.just("check")),
)


class Tolerant(Accounts):
    """Closes and reads what is not there without complaint."""

    def apply(self, state: State, record: sl.Record) -> int:
        if record.kind == "other":
            state.pop(record.key or "", None)
            return 0
        return super().apply(state, record)


class Run:
    """One log, and the view as it lives, dies and comes back."""

    def __init__(self, url: str, folder: Path) -> None:
        self.log = sl.open(url)
        self.log.create_topic("accounts", partitions=PARTITIONS)
        self._path = folder / "accounts.snapshot"
        self._assigned: list[int] = []
        self.view = self._opened()

    def _opened(self) -> sl.LiveView[State]:
        return sl.LiveView(
            self.log,
            "accounts",
            Tolerant(),
            snapshot=self._path,
            snapshot_interval_s=3_600.0,
            poison="quarantine",
        )

    def step(self, kind: str, *arguments: object) -> None:
        getattr(self, kind)(*arguments)

    def append(self, partition: int, values: list[sl.Event]) -> None:
        self.log.append_many("accounts", values, partition=partition)

    def reconcile(self, partitions: set[int]) -> None:
        self.view.reconcile(partitions)
        self._assigned = sorted(partitions)

    def save(self) -> None:
        self.view.save()

    def rebuild(self, partition: int) -> None:
        self.view.rebuild([partition])

    def restart(self, save: bool) -> None:
        self.view.close(save=save)
        self.view = self._opened()
        self.view.reconcile(self._assigned)

    def damage(self, at: int) -> None:
        if self._path.exists():
            content = bytearray(self._path.read_bytes())
            content[at % len(content)] ^= 1 << at % 8
            self._path.write_bytes(content)

    def check(self) -> None:
        assert self.view.assigned() == self._assigned
        self.view.wait_ready(PATIENCE_S)
        catch_up(self.view, self.log)
        self.view.wait_ready(PATIENCE_S)
        for partition in range(PARTITIONS):
            expected = self._folded(partition) if partition in self._assigned else None
            assert self.view.read(partition, dict) == expected

    def _folded(self, partition: int) -> State:
        tolerant = Tolerant()
        state: State = {}
        for record in self.log.read("accounts", partition, 0):
            if record.kind != "poison":
                try:
                    tolerant.apply(state, record)
                except sl.RefusedError:
                    continue
        return state

    def close(self) -> None:
        self.view.close(save=False)
        self.log.close()


def drive(url: str, folder: Path, plan: list[tuple[object, ...]]) -> None:
    run = Run(url, folder)
    try:
        for kind, *arguments in plan:
            run.step(str(kind), *arguments)
        run.check()
        run.reconcile(set(range(PARTITIONS)))
        run.check()
    finally:
        run.close()


@pytest.mark.slow
@settings(max_examples=60)
@given(plan=st.lists(steps, max_size=25))
def test_a_view_is_a_fold_over_the_log_whatever_happens(plan: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        drive("memory:", Path(folder), plan)


@pytest.mark.slow
@settings(max_examples=20)
@given(plan=st.lists(steps, max_size=25))
def test_so_it_is_in_sqlite(plan: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        drive(f"sqlite:{folder}/events.db", Path(folder), plan)


def test_the_plain_fold_of_the_tests_is_right() -> None:
    with sl.open("memory:") as log:
        log.create_topic("accounts")
        for event in (opened("ann", 3), moved("ann", -4), moved("ann", 2), opened("ann", 9)):
            log.append("accounts", event)

        assert folded(log, 0) == {"ann": 5}
