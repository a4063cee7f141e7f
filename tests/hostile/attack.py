"""Calls with one hostile argument each, and their allowed results."""

import asyncio
import contextlib
import inspect
import itertools
import os
import random
import signal
import traceback
from collections.abc import Iterator
from typing import Any, NamedTuple

import strandline as sl
from strandline.values._plain_event import Event as PlainEvent
from tests.hostile.good_calls import CALLS, COMPONENTS, COMPONENTS_OF, Call, World
from tests.hostile.hostile_values import VALUES, RaisingError
from tests.hostile.surface import Surface, parameters, surface

_RESULTS_MAX = 20
_PATIENCE_S = 30.0


class Case(NamedTuple):
    """One argument of one callable, replaced by one value."""

    callable: str
    parameter: str
    value: str


def cases(found: Surface | None = None) -> list[Case]:
    """Return every case."""
    return [
        Case(name, parameter, value)
        for name, function in (surface() if found is None else found).items()
        if name in CALLS
        for parameter in parameters(function)
        if parameter not in COMPONENTS and parameter not in COMPONENTS_OF.get(name, ())
        for value in VALUES
    ]


def sample(seed: int, values_each: int) -> list[Case]:
    """Return a few values for each parameter of each callable."""
    chosen: list[Case] = []
    generator = random.Random(seed)
    for _, group in itertools.groupby(cases(), key=lambda case: case[:2]):
        chosen += generator.sample(list(group), values_each)
    return chosen


def attack(chosen: list[Case], scheme: str) -> list[str]:
    """Run the cases on a log of this kind; return a line for each that broke a rule."""
    broken = []
    world = World(scheme)
    try:
        for case in chosen:
            finding, is_changed = _attack(case, world)
            if finding is not None:
                broken.append(f"{scheme} {case}: {finding}")
            if is_changed:
                world.close()
                world = World(scheme)
    finally:
        world.close()
    return broken


def _attack(case: Case, world: World) -> tuple[str | None, bool]:  # noqa: PLR0911
    """Return what is wrong, and whether the world is no longer as it was."""
    good = CALLS[case.callable](world)
    before = world.content()
    function = surface_of(case.callable)
    hostile = VALUES[case.value]()
    try:
        with deadline():
            _run(Call(good.function, {**good.arguments, case.parameter: hostile}), function, world)
    except sl.StrandlineError as error:
        return _stored(before, world, error)
    except TypeError as error:
        if case.parameter in str(error) and not _is_from_within(error):
            return _stored(before, world, error)
        return _shown(error), True
    except RaisingError as error:
        return None if _is_callers_own(case, error) else _shown(error), True
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        is_long = isinstance(error, HangsError) and case.value == "1e300"
        return None if is_long else _shown(error), True
    if not allows(function, case.parameter, hostile):
        return f"took {type(hostile).__name__}", True
    return None, True


class HangsError(BaseException):
    """A call that did not return."""


@contextlib.contextmanager
def deadline() -> Iterator[None]:
    """Interrupt what does not end."""

    def interrupt(*_: object) -> None:
        raise HangsError

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def _stored(before: object, world: World, error: Exception) -> tuple[str | None, bool]:
    if world.content() == before:
        return None, False
    # A job that has asked Spark has taken its arguments, and may have begun.
    is_open = any(each in str(error) for each in ("is stored", "Spark was asked"))
    if isinstance(error, sl.UnavailableError) and is_open:
        return None, True
    return f"stored something, and raised {type(error).__name__}: {str(error)[:200]}", True


def surface_of(name: str) -> Any:
    """Return the callable as it is declared."""
    return _SURFACE[name]


_SURFACE = surface()


def _run(call: Call, function: Any, world: World) -> None:
    positional = []
    keywords = dict(call.arguments)
    for name, each in parameters(function).items():
        if each.kind is each.POSITIONAL_ONLY and name in keywords:
            positional.append(keywords.pop(name))
    _finish(call.function(*positional, **keywords), world)


def _finish(result: Any, world: World) -> None:
    """Take what comes, wait for what is awaited, and close what was opened."""
    if inspect.isawaitable(result):

        async def wait() -> Any:
            return await result

        result = asyncio.run(wait())
    if isinstance(result, Iterator) and not hasattr(result, "next"):
        for _ in itertools.islice(result, _RESULTS_MAX):
            pass
    elif isinstance(result, contextlib.AbstractContextManager) and result is not world.log:
        with result:
            pass
    elif type(result).__name__ == "History":
        list(result.pieces)
    elif hasattr(result, "schema") and hasattr(result, "__iter__"):
        list(result)


def _shown(error: BaseException) -> str:
    frames = [
        f"{frame.filename.rpartition('/src/strandline/')[2]}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "/src/strandline/" in frame.filename
    ]
    try:
        text = str(error)[:150]
    except RaisingError:
        text = ""
    return f"{type(error).__name__}: {text} at {' < '.join(reversed(frames[-3:]))}"


def _is_from_within(error: TypeError) -> bool:
    """Whether Python raised it inside the library, for an operation on the argument."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].line is not None and "raise TypeError" not in frames[-1].line


def _is_callers_own(case: Case, error: RaisingError) -> bool:
    """Whether a collection of the caller's own has raised while it was read."""
    if case.value == "raising mapping":
        return True
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/src/strandline/" in frame.filename]
    return ours[-1].name == "check_items"


def allows(function: Any, parameter: str, value: Any) -> bool:  # noqa: PLR0911
    """Return whether the annotation of a parameter allows a value."""
    # The compiled one has no annotations.
    annotated = PlainEvent if function is sl.Event else function
    annotation = str(parameters(annotated)[parameter].annotation)
    # What is compiled says nothing of its parameters: a payload is any JSON.
    if annotation == str(inspect.Parameter.empty) and parameter == "kind":
        return isinstance(value, str)
    if parameter == "payload" or any(word in annotation for word in ("object", "Any")):
        return True
    if value is None:
        return any(word in annotation for word in ("None", "Limit", "Chosen"))
    if isinstance(value, bool):
        return "bool" in annotation
    if callable(value) and any(word in annotation for word in ("Callable", "Chosen")):
        return True
    if "Chosen" in annotation:
        return isinstance(value, str)
    checks = (
        ("int", int),
        ("Limit", int),
        ("float", (int, float)),
        ("str", str),
        ("PathLike", os.PathLike),
        ("bytes", bytes),
        ("Value", sl.Event),
        ("Durability", sl.Durability),
        ("ValueKind", sl.ValueKind),
        ("PathLike", os.PathLike),
    )
    if any(word in annotation and isinstance(value, kinds) for word, kinds in checks):
        return True
    if any(word in annotation for word in ("Iterable", "Sequence", "Partitions", "Collection")):
        return hasattr(type(value), "__iter__") or hasattr(value, "__getitem__")
    if "Mapping" in annotation or "Start" in annotation:
        return isinstance(value, dict | int) or type(value).__name__ in ("datetime", "Start")
    return type(value).__name__ in annotation or type(value).__module__.startswith("pyarrow")
