"""Texts of a batch are checked by the core as Arrow checks them."""

import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline._core import IS_COMPILED
from strandline.values import InvalidError
from strandline.values import batches as batches_module
from strandline.values.batches import check_content
from tests.core.fuzz import is_utf8
from tests.core.plain import TEXT, needs_core
from tests.core.test_references import grown

if IS_COMPILED:
    from strandline._core.core import are_texts

pytestmark = needs_core

FEW = settings(max_examples=200, deadline=None)
#: Parts of texts, some of which are none: cut short, too long, too large, half of a pair.
PARTS = [
    b"a",
    b"plain " * 9,
    "é".encode(),
    "€".encode(),
    "😀".encode(),
    b"\x7f",
    "\U0010ffff".encode(),
]
PARTS += [
    b"\x80",
    b"\xc3",
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    b"\xc0\xaf",
    b"\xe0\x80\xaf",
    b"\xed\xa0\x80",
]
PARTS += [b"\xf0\x80\x80\xaf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xff"]
#: More than the rows from which on the core is asked.
ROWS = 2_000


def offsets_of(ends: list[int], width: int) -> bytes:
    return b"".join(each.to_bytes(width, "little", signed=True) for each in ends)


def is_one_text(content: bytes) -> bool:
    """Whether the core takes all of it for one text, behind a byte that is none."""
    return are_texts(offsets_of([1, 1 + len(content)], 4), 4, 0, 1, b"\xff" + content + b"\xff")


@FEW
@given(st.lists(st.sampled_from(PARTS) | st.binary(max_size=4), max_size=60).map(b"".join))
def test_a_text_is_utf8_where_python_decodes_it(content: bytes) -> None:
    assert is_one_text(content) == is_utf8(content)


def test_any_character_is_found_wherever_it_stands() -> None:
    edges = (0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF)
    firsts = (0x41, 0x80, 0xBF, *range(0xC0, 0x100))
    for number, character in enumerate(itertools.product(firsts, edges, (0x41, 0x80, 0xBF))):
        for last in (b"", b"\x41", b"\x80"):
            content = b"a" * (number % 67) + bytes(character) + last
            for behind in (b"", b"b" * (170 - number % 71)):
                assert is_one_text(content + behind) == is_utf8(content + behind), content


@FEW
@given(
    texts=st.lists(st.none() | TEXT),
    first=st.integers(0, 3),
    arrow=st.sampled_from([pa.string(), pa.large_string()]),
)
def test_texts_are_recognised(texts: list[str | None], first: int, arrow: pa.DataType) -> None:
    column = pa.array(texts, arrow).slice(first)
    _, offsets, content = column.buffers()
    width = 4 if arrow == pa.string() else 8

    assert are_texts(offsets, width, column.offset, len(column), content or b"")


@FEW
@given(
    content=st.lists(st.sampled_from(PARTS), max_size=9).map(b"".join),
    ends=st.lists(st.integers(-1, 40), min_size=2, max_size=8),
    is_sorted=st.booleans(),
)
def test_no_text_is_taken_that_arrow_refuses(
    content: bytes, ends: list[int], is_sorted: bool
) -> None:
    offsets = offsets_of(sorted(ends) if is_sorted else ends, 4)
    if are_texts(offsets, 4, 0, len(ends) - 1, content):
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
        pa.Array.from_buffers(pa.string(), len(ends) - 1, buffers).validate(full=True)


@pytest.mark.parametrize(
    ("width", "first", "count"),
    [(4, 0, 3), (4, 3, 0), (4, -1, 1), (4, 0, -1), (2, 0, 1), (0, 0, 1)],
)
def test_texts_without_offsets_are_none(width: int, first: int, count: int) -> None:
    assert not are_texts(offsets_of([0, 1, 2], 4), width, first, count, b"abc")


def checked(column: pa.Array) -> str | None:
    """Return why a batch of this column is refused."""
    try:
        check_content(pa.RecordBatch.from_arrays([pa.array(range(ROWS)), column], ["n", "s"]))
    except InvalidError as error:
        return str(error)
    return None


def damaged(ends: dict[int, int], content: bytes, nulls: int = 0) -> pa.Array:
    """Return texts of one byte each, with other offsets, content and count of nulls."""
    offsets = offsets_of([ends.get(number, number) for number in range(ROWS + 1)], 4)
    bits = None if not nulls else pa.py_buffer(b"\xfe" + b"\xff" * (ROWS // 8))
    buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.string(), ROWS, buffers, nulls)


PLAIN = b"a" * ROWS
ACCENTS = "é".encode() * (ROWS // 2)


@pytest.mark.parametrize(
    ("column", "is_valid"),
    [
        (damaged({}, PLAIN), True),
        (damaged({}, PLAIN, nulls=1), True),
        (damaged({}, PLAIN, nulls=2), False),
        (damaged({}, b"\xff" + PLAIN[1:], nulls=1), True),
        (damaged({}, PLAIN[1:] + b"\xff"), False),
        (damaged({1700: 3}, PLAIN), False),
        (damaged({1700: 1 << 20}, PLAIN), False),
        (damaged({1700: -5}, PLAIN), False),
        (damaged({}, ACCENTS), False),
        (damaged({each: each // 2 * 2 for each in range(ROWS + 1)}, ACCENTS), True),
        (pa.array([b"\xff"] * ROWS).cast(pa.binary()), True),
        (pa.array(["é", None] * (ROWS // 2)).dictionary_encode(), True),
        (pa.array([["é"], None] * (ROWS // 2)), True),
    ],
)
def test_many_rows_are_refused_as_without_the_core(column: pa.Array, is_valid: bool) -> None:
    found = checked(column)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches_module, "IS_COMPILED", False)
        expected = checked(column)

    assert found == expected
    assert (found is None) == is_valid


def test_nothing_is_kept() -> None:
    def call() -> Any:
        return is_one_text(b"abc"), is_one_text(b"\xff"), are_texts(b"", 4, 0, 1, b"")

    assert grown(call, 1000) < 50
