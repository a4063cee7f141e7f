"""Durability levels: their order and their text."""

import pytest

from strandline.values import Durability, InvalidError


def test_each_level_includes_the_ones_below_it() -> None:
    assert Durability.APPLIED < Durability.WRITTEN < Durability.DURABLE


@pytest.mark.parametrize("level", Durability)
def test_a_level_is_read_back_from_its_text_and_from_itself(level: Durability) -> None:
    assert Durability.parse(str(level)) is level
    assert Durability.parse(level) is level


@pytest.mark.parametrize(
    "value", ["", "Durable", " durable", "fsync", None, 2, b"durable", [], True]
)
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(InvalidError, match="'applied', 'written' or 'durable'"):
        Durability.parse(value)
