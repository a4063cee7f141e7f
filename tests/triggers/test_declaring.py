"""The arguments of `on`: wrong ones are refused when it is applied."""

from typing import Any

import pytest

import strandline as sl
from strandline.triggers import Triggers, backoff
from strandline.triggers.trigger import triggers_of


def nothing_to_take() -> None: ...


def too_much(record: Any, delivery: Any, more: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "terms", "match"),
    [
        (print, {"concurrency": 0}, "concurrency"),
        (print, {"retry": [-1]}, "seconds from 0"),
        (print, {"retry": "12"}, "list of seconds"),
        (print, {"retry": 1.5}, "write retry="),
        (print, {"retry": None}, "write retry="),
        (print, {"retry": True}, "write retry="),
        (print, {"retry": -1}, "retries is a whole number"),
        (print, {"concurrency": "8"}, "concurrency"),
        (print, {"concurrency": 2.5}, "concurrency"),
        (print, {"dedupe_window_s": "60"}, "window"),
        (print, {"where": 3}, "predicate"),
        (print, {"name": " x"}, "white space"),
        (print, {"dedupe_key": ""}, "no function"),
        (print, {"dedupe_window_s": -1}, "window"),
        (nothing_to_take, {}, "takes the record"),
        (too_much, {}, "takes the record"),
        (3, {}, "no function"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_written(
    function: Any, terms: Any, match: str
) -> None:
    triggers = Triggers(sl.open("memory:"))

    with pytest.raises(sl.InvalidError, match=match):
        triggers.on("orders", **{"name": "x", **terms})(function)


def test_two_triggers_of_one_name_on_one_topic_are_refused() -> None:
    triggers = Triggers(sl.open("memory:"))
    triggers.on("orders", name="x")(print)

    with pytest.raises(sl.InvalidError, match="share a cursor"):
        triggers.on("orders", name="x")(print)
    with pytest.raises(sl.InvalidError, match="nothing to run"):
        Triggers(sl.open("memory:")).start()
    with pytest.raises(sl.InvalidError, match="@on first"):
        Triggers(sl.open("memory:"), [print])


def test_backoff_grows_to_its_cap() -> None:
    assert backoff(1, factor=3, cap_s=10, retries=5) == (1, 3, 9, 10, 10)
    assert backoff(retries=0) == ()
    with pytest.raises(sl.InvalidError):
        backoff(-1)
    with pytest.raises(sl.InvalidError):
        backoff(factor=0.5)
    with pytest.raises(sl.InvalidError):
        backoff(retries=-1)


def test_a_number_of_retries_has_the_delays_of_backoff() -> None:
    @sl.on("orders", retry=3)
    def three(record: sl.Record) -> None: ...

    @sl.on("orders", retry=0)
    def none(record: sl.Record) -> None: ...

    assert [each.retry for each in (*triggers_of(three), *triggers_of(none))] == [(1, 2, 4), ()]


def test_a_decorator_without_its_topic_says_what_to_write() -> None:
    def bill(record: sl.Record) -> None: ...

    unnamed: Any = bill
    nameless: Any = None
    with pytest.raises(sl.InvalidError, match=r'write @on\("orders"\)'):
        sl.on(unnamed)
    with pytest.raises(sl.InvalidError, match=r'write @on\("orders"\)'):
        Triggers(sl.open("memory:")).on(unnamed)
    with pytest.raises(sl.InvalidError, match="pass its name"):
        sl.on(nameless)
    with pytest.raises(sl.InvalidError, match="list of functions"):
        Triggers(sl.open("memory:"), unnamed)
