"""Texts, read where Python keeps them: the same JSON, and no copy left with the text."""

import math
import sys
from importlib import import_module
from itertools import combinations
from random import Random
from typing import Any

import pytest

from strandline.values import Event
from strandline.values._json import encode_exact
from strandline.values._plain_event import Event as PlainEvent
from tests.core.plain import made, needs_core

pytestmark = needs_core

#: Longer than two steps of sixteen characters, and what is left of a third.
LENGTH_MAX = 40
ODD = ("\x00", "\x1f", " ", "\n", '"', "\\", "\x7f", "\x80", "é", "ÿ", "Ā", "€", "😀")


def core() -> Any:
    return import_module("strandline._core.core")


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_a_text_of_any_length_with_an_odd_character_anywhere_is_the_same_json(odd: str) -> None:
    letters = "".join(chr(ord("a") + place % 26) for place in range(LENGTH_MAX))

    for length in range(LENGTH_MAX):
        for place in range(length + 1):
            text = letters[:place] + odd + letters[place:length]
            assert core().encode(text) == encode_exact(text)


@pytest.mark.parametrize("wide", ["", "é", "€"], ids=ascii)
def test_texts_with_several_odd_characters_are_the_same_json(wide: str) -> None:
    for one, other in combinations(range(LENGTH_MAX), 2):
        text = "".join('é"'[each == one] if each in (one, other) else "a" for each in range(44))
        assert core().encode(text + wide) == encode_exact(text + wide)


def test_half_of_a_surrogate_pair_is_left_to_python() -> None:
    assert core().encode("a\ud800") is NotImplemented
    assert core().encode({"a\udfff": 1}) is NotImplemented


@pytest.mark.parametrize("text", ["plain", "smörgås" * 9, "ÿ"])
def test_encoding_a_text_keeps_no_copy_with_it(text: str) -> None:
    if sys.version_info >= (3, 14):
        pytest.skip("how this Python keeps texts is not known")
    fresh = "".join(list(text))
    before = sys.getsizeof(fresh)

    Event("kind", {fresh: fresh}, headers={"a": fresh})

    assert sys.getsizeof(fresh) == before


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_a_kind_with_an_odd_character_anywhere_is_taken_or_refused_alike(odd: str) -> None:
    for length in range(20):
        for place in range(length + 1):
            kind = "k" * place + odd + "k" * (length - place)
            ours, plain = (made(each, {"kind": kind}) for each in (Event, PlainEvent))
            assert (ours if isinstance(plain, tuple) else ours.parts()) == (
                plain if isinstance(plain, tuple) else plain.parts()
            )


def test_numbers_with_few_decimals_and_those_next_to_them_are_the_same_json() -> None:
    seed = Random().getrandbits(32)
    print(f"{seed=}")  # noqa: T201 - Repeats it.
    chosen = Random(seed)
    values = [0.0, -0.0, 0.0001, 0.00011, 0.000099, 999_999_999.999999, 1e9, 123_456_789.5, 1e-7]
    for _ in range(4_000):
        whole, decimals = chosen.randrange(10 ** chosen.randrange(10)), chosen.randrange(9)
        values.append(round(whole + chosen.random(), decimals))
    near = [math.nextafter(each, toward) for each in values for toward in (-math.inf, math.inf)]

    for value in [*values, *near, *(-each for each in values)]:
        found = core().encode(value)
        assert found is NotImplemented or found == encode_exact(value)
        assert found is not NotImplemented or "e" in repr(value)
