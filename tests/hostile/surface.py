"""Every public callable, found by inspection, so that none is left out."""

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from strandline.values import Event

ROOMS = (
    *("strandline", "strandline.typed", "strandline.tiering", "strandline.triggers"),
    *("strandline.views", "strandline.predicates", "strandline.subscriptions"),
    "strandline.testing",
)
SPARK_ROOMS = ("strandline.spark", "strandline.spark.jobs", "strandline.spark.pipelines")
"""Their names are called after the room: each has a `tier`, `run` or `table` of its own."""
ONE_LOG = dict.fromkeys(("SubscribableLog", "BrokeredLog", "TieredLog", "ScopedLog"), "Log")
"""Classes that are what a log is opened as; the name that its methods go by."""

Surface = dict[str, Callable[..., Any]]


def surface() -> Surface:
    """Return each public callable that takes an argument, by its name."""
    found: Surface = {}
    for room in (*ROOMS, *SPARK_ROOMS):
        module = import_module(room)
        prefix = f"{room.rpartition('.')[2]}." if room in SPARK_ROOMS else ""
        for name in module.__all__:
            for called, function in _callables(prefix + name, getattr(module, name)):
                if parameters(function):
                    found.setdefault(called, function)
    return found


def _callables(name: str, value: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    if not inspect.isclass(value):
        if callable(value) and getattr(value, "__module__", "").startswith("strandline"):
            yield name, value
        return
    if issubclass(value, BaseException):
        return
    # What is compiled is made by `__new__`.
    is_made_here = "__init__" in vars(value) or value is Event
    if not getattr(value, "_is_protocol", False) and is_made_here:
        yield name, value
    for method, function in inspect.getmembers(value, callable):
        is_ours = getattr(function, "__module__", "") or ""
        if not method.startswith("_") and is_ours.startswith("strandline"):
            yield f"{ONE_LOG.get(name, name)}.{method}", function


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return what it takes beside itself."""
    try:
        found = inspect.signature(function).parameters
    except ValueError:
        return {}
    skipped = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {
        name: each
        for name, each in found.items()
        if name not in ("self", "cls") and each.kind not in skipped
    }
