"""Both faces of an object have the same names, with the same parameters."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import strandline as sl
from strandline import log, subscriptions

PAIRS: list[tuple[type, type]] = [
    (sl.Log, sl.AsyncLog),
    (sl.Receipt, sl.AsyncReceipt),
    (log.Receipts, sl.AsyncReceipts),
    (log.Batches, sl.AsyncBatches),
    (log.Watch, sl.AsyncWatch),
    (subscriptions.Assignment, sl.AsyncAssignment),
    (sl.Subscription, sl.AsyncSubscription),
    (sl.Consumer, sl.AsyncConsumer),
    (sl.SharedConsumer, sl.AsyncSharedConsumer),
    (sl.Scope, sl.AsyncScope),
    (sl.ScopedSubscription, sl.AsyncScopedSubscription),
    (sl.LiveView, sl.AsyncLiveView),
    (sl.PendingView, sl.AsyncPendingView),
    (sl.Triggers, sl.AsyncTriggers),
]

ONE_FACE = {
    "Log.history": "It is for those who copy logs, in a thread.",
    "Assignment.shown": "What the subscription shows of it.",
    "Watch.wait_on_loop": "What AsyncWatch.wait is made of.",
}

SPECIAL = {
    "__enter__": "__aenter__",
    "__exit__": "__aexit__",
    "__iter__": "__aiter__",
    "__next__": "__anext__",
    "__len__": "__len__",
    "__getitem__": "__getitem__",
    "__await__": "__await__",
}

AT_ONCE = {
    *("AsyncLog.append", "AsyncLog.append_many", "AsyncLog.transaction", "AsyncLog.scope"),
    *("AsyncLog.subscribe", "AsyncLog.consumer", "AsyncLog.watch"),
    "AsyncLog.event",
    *("AsyncScope.subscribe", "AsyncWatch.wake", "AsyncSubscription.check_open"),
    *("AsyncReceipts.index", "AsyncReceipts.count"),
    *(f"AsyncLiveView.{name}" for name in ("read", "partition_of", "applied", "committed")),
    *("AsyncLiveView.is_ready", "AsyncLiveView.health"),
    *(f"AsyncPendingView.{name}" for name in ("read", "partition_of", "applied", "committed")),
    *("AsyncPendingView.is_ready", "AsyncPendingView.health", "AsyncPendingView.become"),
    *("AsyncTriggers.on", "AsyncTriggers.metrics", "AsyncTriggers.registered"),
    "AsyncTriggers.request_stop",
}
"""What answers at once, or returns what is awaited."""


def names(face: type) -> set[str]:
    public = {name for name in dir(face) if not name.startswith("_")}
    return {f"{face.__name__.removeprefix('Async')}.{name}" for name in public} - ONE_FACE.keys()


def differences(blocking: type, on_loop: type) -> Iterator[str]:
    """Yield what is in one of two faces only, or differs."""
    yield from sorted(names(blocking) ^ (names(on_loop) - {f"{blocking.__name__}.blocking"}))
    for name in sorted(each.partition(".")[2] for each in names(blocking)):
        ours, theirs = getattr(blocking, name, None), getattr(on_loop, name, None)
        if inspect.isfunction(ours) and inspect.isfunction(theirs):
            if parameters(ours) != parameters(theirs):
                yield f"{blocking.__name__}.{name}{inspect.signature(theirs)}"
        elif isinstance(ours, property) is not isinstance(theirs, property):
            yield f"{blocking.__name__}.{name} is a property in one of them"
    for name, twin in SPECIAL.items():
        if hasattr(blocking, name) and not (hasattr(on_loop, twin) or hasattr(on_loop, name)):
            yield f"{on_loop.__name__}.{twin}"


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    found = list(inspect.signature(function).parameters.values())[1:]
    return [(each.name, each.kind, each.default) for each in found]


@pytest.mark.parametrize(("blocking", "on_loop"), PAIRS, ids=lambda face: face.__name__)
def test_both_faces_have_the_same_names_and_parameters(blocking: type, on_loop: type) -> None:
    assert list(differences(blocking, on_loop)) == []


@pytest.mark.parametrize("on_loop", [pair[1] for pair in PAIRS], ids=lambda face: face.__name__)
def test_what_may_block_is_awaited(on_loop: type) -> None:
    for name, member in inspect.getmembers(on_loop, inspect.isfunction):
        if name.startswith("_") or f"{on_loop.__name__}.{name}" in AT_ONCE:
            continue
        is_awaited = inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member)
        assert is_awaited, f"{on_loop.__name__}.{name}"


def test_every_async_name_of_the_package_is_a_face() -> None:
    parts = {"AsyncTransaction", "AsyncConnection", "AsyncCursor"}
    faces = {pair[1].__name__ for pair in PAIRS}

    assert {name for name in sl.__all__ if name.startswith("Async")} == faces | parts


def test_a_call_that_only_one_face_has_is_found_out() -> None:
    class More(sl.Log):
        def compact(self, topic: str) -> None:
            """Be new."""

    class Other(sl.AsyncLog):
        async def marks(self, topic: str) -> None:  # type: ignore[misc,override]
            """Lack a parameter."""

    More.__name__, Other.__name__ = "Log", "AsyncLog"

    assert list(differences(More, sl.AsyncLog)) == ["Log.compact"]
    assert list(differences(sl.Log, Other)) == ["Log.marks(self, topic: str) -> None"]


def test_each_face_says_what_it_is() -> None:
    with sl.open("memory:") as opened:
        opened.create_topic("orders")
        made = [
            sl.AsyncLog(opened),
            sl.AsyncLog(opened).subscribe("orders"),
            sl.AsyncLog(opened).scope(),
            sl.AsyncLog(opened).transaction(),
            sl.AsyncReceipt(opened.append("orders", sl.Event("a"))),
            sl.AsyncReceipts(1, opened.append_many("orders", [sl.Event("a")])),
            sl.AsyncBatches(opened.read_batches("orders", 0, 0)),
            sl.AsyncWatch(opened.watch()),
            sl.AsyncSubscription(opened.subscribe("orders")),
            sl.AsyncConsumer(opened.consumer("orders", "billing")),
            sl.AsyncTriggers(sl.Triggers(opened)),
        ]

        for each in made:
            assert repr(each).startswith(f"{type(each).__name__}("), repr(each)
