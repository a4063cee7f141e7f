"""The entries of predicates."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from benchmarks import trigger
from benchmarks.entry import Contender

SMALL = {
    "one predicate": partial(trigger.filtering, rows=10, calls=3),
    "fifty predicates": partial(trigger.routing, rows=50, calls=3),
}


@pytest.mark.parametrize("contenders", SMALL.values(), ids=SMALL)
def test_each_contender_does_a_round(
    contenders: Callable[[Path], Mapping[str, Contender]], tmp_path: Path
) -> None:
    each = contenders(tmp_path)

    assert all(contender() > 0 for contender in each.values())
    assert "ours" in each
