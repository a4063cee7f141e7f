"""The entries of views."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from benchmarks import view
from benchmarks.entry import Contender

SMALL = {
    "apply in memory": partial(view.applying, backend="memory", events=50),
    "apply in sqlite": partial(view.applying, backend="sqlite", events=50),
    "restart": partial(view.restarting, events=2_500),
    "read": partial(view.reading, events=50, reads=50),
}


@pytest.mark.parametrize("contenders", SMALL.values(), ids=SMALL)
def test_each_contender_does_a_round(
    contenders: Callable[[Path], Mapping[str, Contender]], tmp_path: Path
) -> None:
    each = contenders(tmp_path)

    assert all(contender() > 0 for contender in each.values())
    assert "ours" in each
