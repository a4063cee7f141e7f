"""What `on` is told: refused where it is written if it cannot work."""

from typing import Any

import pytest

import strandline as sl
from strandline.triggers import Triggers, backoff


def nothing_to_take() -> None: ...


def too_much(record: Any, delivery: Any, more: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "terms", "match"),
    [
        (print, {"concurrency": 0}, "concurrency"),
        (print, {"retry": [-1]}, "seconds from 0"),
        (print, {"retry": "12"}, "list of seconds"),
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
