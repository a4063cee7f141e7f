"""The rules of the conformance suite as cases of a test, and the logs that they open."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from strandline.log import Log
from strandline.testing import conformance

#: What makes ten thousand calls. The stores of one machine are held to it in make test-fast.
LONG = "ten_thousand_appends_read_back_in_order"


def cases(rules: Iterable[Any]) -> list[Any]:
    """Return the rules with their names, for logs whose calls take long."""
    names = {rule: conformance.name_of(rule) for rule in rules}
    return [
        pytest.param(rule, id=name, marks=[pytest.mark.heavy] if name == LONG else [])
        for rule, name in names.items()
    ]


@contextlib.contextmanager
def opening(open_one: Callable[..., Log]) -> Iterator[Callable[..., Log]]:
    """Give rules what they open logs with; all of these are closed at the end."""
    with contextlib.ExitStack() as opened:
        yield lambda *args, **options: opened.enter_context(open_one(*args, **options))
