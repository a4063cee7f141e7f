"""How many Python calls a warm append makes: the figure may only fall.

Counted are the calls of Python functions for one append of a ready event to a `file:` log,
in plain Python. See design 0084.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import strandline as sl
from strandline.log import shortcuts
from strandline.log.appending import Appends
from strandline.stores.files import compiled_lane
from tests.planting import Bug

CALLS_MAX = 37
MODULES_MAX = 20
#: Of a log that is opened with `exclusive=True`.
EXCLUSIVE_CALLS_MAX = 29

EVENT = sl.Event("placed", {"id": 7})


def test_a_warm_append_makes_no_more_calls_than_it_did(tmp_path: Path) -> None:
    calls = calls_of_append(tmp_path)

    assert len(calls) <= CALLS_MAX, "\n".join(calls)
    assert len(modules(calls)) <= MODULES_MAX, modules(calls)


def test_an_exclusive_writer_makes_fewer(tmp_path: Path) -> None:
    calls = calls_of_append(tmp_path, exclusive=True)

    assert len(calls) <= EXCLUSIVE_CALLS_MAX, "\n".join(calls)


def test_a_layer_more_is_noticed(tmp_path: Path) -> None:
    bug = Bug("a layer that only forwards", Appends, "_append", "draft(...)", "(lambda: _)()")
    before = calls_of_append(tmp_path / "one")

    with bug.planted():
        after = calls_of_append(tmp_path / "other")

    assert len(after) == len(before) + 1


def calls_of_append(place: Path, *, exclusive: bool = False) -> list[str]:
    with pytest.MonkeyPatch.context() as plain:
        plain.setattr(compiled_lane, "IS_COMPILED", False)
        plain.setattr(shortcuts, "IS_COMPILED", False)
        with sl.open(f"file:{place}/log", exclusive=exclusive) as log:
            log.create_topic("orders")
            for _ in range(3):
                log.append("orders", EVENT)
            return traced(partial(log.append, "orders", EVENT))


def traced(append: Callable[[], object]) -> list[str]:
    """Append once, and return which functions of ours were called, in order."""
    calls: list[str] = []

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            code = frame.f_code
            calls.append(f"{Path(code.co_filename).name} {code.co_name}")

    # What measures coverage or time may be there already.
    present = sys.getprofile()
    sys.setprofile(profile)
    try:
        append()
    finally:
        sys.setprofile(present)
    return calls


def modules(calls: list[str]) -> set[str]:
    return {call.partition(" ")[0] for call in calls}
