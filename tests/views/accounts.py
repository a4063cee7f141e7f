"""A view of bank accounts, as a user would write it, and what most tests do with it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import strandline as sl
from strandline.log import Log, TopicName, Value
from strandline.values import Marks, Position

PATIENCE_S = 20.0
"""How long a test waits for what must happen; only a failure takes as long."""

State = dict[str, int]


class Accounts(sl.View[State]):
    """Balances by account. No balance may be negative, and what is closed is dropped."""

    version = 1

    def initial(self, partition: int) -> State:  # noqa: ARG002 - Not every view needs it.
        return {}

    def apply(self, state: State, record: sl.Record) -> int:
        name, amount = record.key, record.payload
        assert name is not None
        if record.kind == "opened":
            if name in state:
                raise sl.RefusedError("the account is there already", account=name)
            state[name] = amount
        elif record.kind == "moved":
            if state.get(name, 0) + amount < 0:
                raise sl.RefusedError("the account would owe", account=name)
            state[name] = state.get(name, 0) + amount
        elif record.kind == "closed":
            del state[name]
            return 0
        elif record.kind == "poison":
            # Half a change first: it must leave no trace.
            state[name] = state.get(name, 0) + 1_000_000
            raise ValueError("no such kind of movement")
        return state[name]

    def check(self, state: State, value: Value) -> None:
        if isinstance(value, sl.Event) and value.kind == "unheard of":
            raise sl.RefusedError("no such kind", kind=value.kind, accounts=len(state))

    def encode(self, state: State) -> bytes:
        return json.dumps(state, sort_keys=True).encode()

    def decode(self, stored: bytes) -> State:
        state: State = json.loads(stored)
        return state


def opened(name: str, amount: int = 0) -> sl.Event:
    return sl.Event("opened", amount, key=name)


def moved(name: str, amount: int) -> sl.Event:
    return sl.Event("moved", amount, key=name)


def folded(log: Log, partition: int, *, topic: str = "accounts") -> State:
    """Return what a plain loop over the log makes, without any view."""
    accounts = Accounts()
    state: State = {}
    for record in log.read(topic, partition, log.marks(topic, partition).low):
        if record.kind != "poison":
            try:
                accounts.apply(state, record)
            except sl.RefusedError:
                continue
    return state


def state_of(view: "sl.LiveView[State]", partition: int = 0) -> State | None:
    return view.read(partition, dict)


def catch_up(view: "sl.LiveView[State]", log: Log, topic: str = "accounts") -> None:
    """Wait until every assigned partition has applied what the log holds."""
    for partition in view.assigned():
        view.wait_applied(partition, log.marks(topic, partition).high - 1, PATIENCE_S)


@contextmanager
def running(
    log: Log, *partitions: int, view: sl.View[State] | None = None, **settings: Any
) -> "Iterator[sl.LiveView[State]]":
    """Run the view with these partitions, until they are ready."""
    live = sl.LiveView(log, "accounts", view or Accounts(), **settings)
    try:
        live.reconcile(partitions)
        live.wait_ready(PATIENCE_S)
        yield live
    finally:
        live.close(save=False)


def fill(log: Log, count: int, *, partition: int = 0) -> None:
    """Append `count` movements, over three accounts."""
    log.append_many("accounts", [moved(f"a{n % 3}", n) for n in range(count)], partition=partition)


def save_all(log: Log, path: object) -> None:
    """Leave a snapshot of everything in the log."""
    with running(log, 0, 1, snapshot=path) as view:
        view.close()


class SteeredLog:
    """Forwards to another log, fails what a test says, and counts what views ask for."""

    def __init__(self, inner: Log) -> None:
        self._inner = inner
        self.marks_fail = False
        self.resolve_fails = False
        self.marks_asked = 0
        self.starts: list[int] = []
        self.records_read = 0
        self.before_read: Callable[[int, int], None] = lambda partition, start: None
        self.before_position: Callable[[int], None] = lambda partition: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def marks(self, topic: TopicName, partition: int) -> Marks:
        self.marks_asked += 1
        if self.marks_fail:
            raise sl.UnavailableError("no marks at the moment")
        return self._inner.marks(topic, partition)

    def resolve(self, position: Position) -> int:
        if self.resolve_fails:
            raise sl.UnavailableError("no history at the moment")
        return self._inner.resolve(position)

    def position(self, topic: TopicName, partition: int, offset: int) -> Position:
        self.before_position(partition)
        return self._inner.position(topic, partition, offset)

    def read(
        self, topic: TopicName, partition: int, start: int, **limits: Any
    ) -> Iterator[sl.Record]:
        self.before_read(partition, start)
        self.starts.append(start)
        return self._counted(self._inner.read(topic, partition, start, **limits))

    def _counted(self, records: Iterator[sl.Record]) -> Iterator[sl.Record]:
        for record in records:
            self.records_read += 1
            yield record

    def as_log(self) -> Log:
        return cast("Log", self)
