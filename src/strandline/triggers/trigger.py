"""The options of `@on`: which records a function handles, and how it is called."""

import inspect
import sys
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias, TypedDict, TypeVar

from strandline.log import TopicName
from strandline.subscriptions.blocked_keys import OnDeadLetter, is_blocking
from strandline.triggers.schedule import RETRY, checked_schedule
from strandline.values import (
    EARLIEST,
    InvalidError,
    Record,
    Start,
    StartName,
    Topic,
    check_consumer_name,
    check_topic_name,
)
from strandline.values.arguments import check_choice, check_seconds, check_whole
from strandline.values.names import check_text

CONCURRENCY_MAX: Final = 1_000
DEDUPE_WINDOW_S: Final = 7 * 24 * 3600.0
"""How long a de-duplication key is kept, by default."""

_MARK = "__strandline_triggers__"
_WITH_DELIVERY = 2

Function = TypeVar("Function", bound=Callable[..., Any])
DedupeKey: TypeAlias = str | Callable[[Record], Hashable | None]


class TriggerTerms(TypedDict, total=False):
    """The options of `on`."""

    where: str
    name: str | None
    concurrency: int
    retry: Iterable[float] | int
    dedupe_key: DedupeKey | None
    dedupe_window_s: float
    start: Start | StartName | datetime
    on_dead_letter: OnDeadLetter


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """One function on one topic. Made by `on`."""

    function: Callable[..., Any]
    topic: TopicName
    name: str
    where: str
    concurrency: int
    retry: tuple[float, ...]
    dedupe_key: DedupeKey | None
    dedupe_window_s: float
    start: Start | datetime
    takes_delivery: bool
    blocks_keys: bool


def trigger(
    function: Callable[..., Any],
    topic: TopicName,
    *,
    where: str = "",
    name: str | None = None,
    concurrency: int = 1,
    retry: Iterable[float] | int = RETRY,
    dedupe_key: DedupeKey | None = None,
    dedupe_window_s: float = DEDUPE_WINDOW_S,
    start: Start | StartName | datetime = EARLIEST,
    on_dead_letter: OnDeadLetter = "continue",
) -> Trigger:
    """Return the trigger that `on` with these arguments describes; InvalidError if invalid."""
    if check_whole("concurrency", concurrency, 1) > CONCURRENCY_MAX:
        raise InvalidError(
            "a concurrency is a whole number from 1", concurrency=concurrency, max=CONCURRENCY_MAX
        )
    dedupe_window_s = check_seconds("dedupe_window_s", dedupe_window_s)
    if not isinstance(topic, Topic):
        topic = check_topic_name(topic, internal=True)
    if not isinstance(start, datetime):
        start = check_choice("start", start, Start, "a datetime")
    where = check_text(where, "predicate")
    if isinstance(dedupe_key, str):
        dedupe_key = check_text(dedupe_key, "dedupe_key")
    if dedupe_key is not None and (not isinstance(dedupe_key, str) or not dedupe_key):
        _check_callable(dedupe_key)
        if inspect.iscoroutinefunction(dedupe_key):
            raise InvalidError("dedupe_key cannot be async, write it without async")
    return Trigger(
        function=function,
        topic=topic,
        name=check_consumer_name(_own_name(function) if name is None else name),
        where=where,
        concurrency=concurrency,
        retry=checked_schedule(retry),
        dedupe_key=dedupe_key,
        dedupe_window_s=dedupe_window_s,
        start=start,
        takes_delivery=_takes_delivery(function),
        blocks_keys=is_blocking(on_dead_letter),
    )


def on(
    topic: TopicName,
    *,
    where: str = "",
    name: str | None = None,
    concurrency: int = 1,
    retry: Iterable[float] | int = RETRY,
    dedupe_key: DedupeKey | None = None,
    dedupe_window_s: float = DEDUPE_WINDOW_S,
    start: Start | StartName | datetime = EARLIEST,
    on_dead_letter: OnDeadLetter = "continue",
) -> Callable[[Function], Function]:
    """Decorate a function: `Triggers` calls it for each record of a topic.

    The function is returned unchanged. It takes the record, or the record and its
    `Delivery`, which has the count, and may be `async`. If it returns, the record is handled;
    the result is ignored. If it raises, the record is retried after each of the delays of
    `retry` in turn, and after the last one dead-lettered with the cause. A whole number as
    `retry` means this many retries, with the delays of `backoff`.

    Records that the predicate `where` does not match are skipped. `name` is the name of the
    consumer, by default the function's module and qualified name: the trigger continues at
    this consumer's cursor, or begins at `start` if there is none. At most `concurrency`
    records are handled at a time; those of one key one at a time, in order, also while one of
    them waits for its retry.

    With `dedupe_key`, a field of the payload or a function of the record, a record is
    skipped if one with an equal key was handled that was appended less than
    `dedupe_window_s` before or after it. A record whose key is None is never skipped.

    With `on_dead_letter="block-key"`, later records of a dead letter's key wait until the dead
    letter is redriven and handled, or discarded.
    """

    check_topic(topic)

    def mark(function: Function) -> Function:
        made = trigger(
            function,
            topic,
            where=where,
            name=name,
            concurrency=concurrency,
            retry=retry,
            dedupe_key=dedupe_key,
            dedupe_window_s=dedupe_window_s,
            start=start,
            on_dead_letter=on_dead_letter,
        )
        _mark(function, made)
        return function

    return mark


def _mark(function: Callable[..., Any], made: Trigger) -> None:
    """Store a trigger on its function; InvalidError if the object takes no attributes."""
    try:
        if "self" not in list(inspect.signature(function).parameters)[:1]:
            setattr(function, _MARK, (made, *getattr(function, _MARK, ())))
            return
    except (AttributeError, TypeError, ValueError):
        pass  # Written in C, or bound to an object.
    raise InvalidError(
        "this decorates plain functions only: for a method or a built-in function make a runner and"
        " write runner.on(topic)(object.method)",
        function=repr(function),
    )


def check_topic(topic: object) -> None:
    """Raise InvalidError unless it is a topic, or could be the name of one."""
    if isinstance(topic, str | Topic):
        return
    if callable(topic):
        raise InvalidError(
            'this decorator takes the topic first, write @on("orders") above the function',
            function=topic,
        )
    raise InvalidError("a trigger is on a topic, pass its name", topic=topic)


def triggers_of(function: Callable[..., Any]) -> tuple[Trigger, ...]:
    """Return the triggers that `on` stored on the function; InvalidError if there are none."""
    found: tuple[Trigger, ...] = getattr(function, _MARK, ())
    if not found:
        raise InvalidError("decorate this function with @on first", function=function)
    return found


def _own_name(function: Callable[..., Any]) -> str:
    qualified = getattr(function, "__qualname__", None)
    if qualified is None:
        raise InvalidError("this callable has no name of its own, pass name=", got=function)
    module = function.__module__
    if module == "__main__":
        # The same name however the program is started, where Python knows it.
        spec = getattr(sys.modules[module], "__spec__", None)
        module = getattr(spec, "name", module)
    return f"{module}.{qualified}"


def _takes_delivery(function: Callable[..., Any]) -> bool:
    """Whether it takes the delivery, too; InvalidError if it cannot be called either way.

    A second parameter with a default is not for the delivery, unless it is named `delivery`.
    """
    _check_callable(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidError(
            "a function that yields would never run, return instead", function=repr(function)
        )
    try:
        signature = inspect.signature(function)
    except ValueError:
        # Written in C, without a signature.
        return False
    places = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}
    ]
    second = places[1] if len(places) >= _WITH_DELIVERY else None
    is_wanted = second is not None and (second.default is second.empty or second.name == "delivery")
    try:
        signature.bind(*range(_WITH_DELIVERY if is_wanted else 1))
    except TypeError:
        raise InvalidError(
            "a function takes the record, or the record and its delivery", function=repr(function)
        ) from None
    return is_wanted


def _check_callable(value: object) -> None:
    if not callable(value):
        raise InvalidError("this is no function", got=value)
