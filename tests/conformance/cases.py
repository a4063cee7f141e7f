"""The rules of the conformance suite as cases of a test."""

from collections.abc import Iterable
from typing import Any

import pytest

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
