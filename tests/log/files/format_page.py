"""The tables of docs/reference/file-format.md, and reading bytes by them."""

import re
from pathlib import Path
from struct import Struct, calcsize
from typing import NamedTuple

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "file-format.md"

_TYPES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i64": "q"}


class Layout(NamedTuple):
    """Where the fields of something binary begin, and how they are read."""

    struct: Struct
    start: int
    meanings: list[str]

    def unpack(self, content: bytes) -> tuple[object, ...]:
        """Return the fields, from where the page says that they are."""
        return self.struct.unpack_from(content, self.start)


def text() -> str:
    """Return the whole page."""
    return PAGE.read_text(encoding="utf-8")


def tables(heading: str) -> list[list[list[str]]]:
    """Return the tables between a heading and the next, without their first lines."""
    _, found, rest = text().partition(f"\n{heading}\n")
    assert found, f"the page has no heading {heading!r}"
    section = re.split(r"\n#+ ", rest)[0]
    found_tables = re.findall(r"(?:^\|.*\|\n)+", section, re.MULTILINE)
    assert found_tables, f"there is no table under {heading!r}"
    return [[_cells(line) for line in each.splitlines()[2:]] for each in found_tables]


def table(heading: str) -> list[list[str]]:
    """Return the only table under a heading."""
    [found] = tables(heading)
    return found


def layout(heading: str) -> Layout:
    """Return the table under a heading as a layout; AssertionError if its places are wrong."""
    rows = table(heading)
    start = int(rows[0][0])
    shape = "<"
    for at, kind, meaning in rows:
        assert int(at) == start + calcsize(shape), f"{heading}: {meaning} is not at {at}"
        shape += _TYPES.get(kind) or f"{int(kind.removesuffix(' bytes'))}s"
    return Layout(Struct(shape), start, [meaning for _, _, meaning in rows])


def magic(meaning: str) -> bytes:
    """Return the bytes that a field's meaning shows."""
    return bytes.fromhex(re.findall(r"`([0-9a-f ]+)`", meaning)[0])


def numbers(meaning: str) -> list[int]:
    """Return the numbers in a field's meaning."""
    return [int(each) for each in re.findall(r"\b\d+\b", meaning)]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
