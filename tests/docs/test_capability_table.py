"""The table of what each kind of log has is that of the code."""

import re
from pathlib import Path

import pytest

from strandline.log import Capabilities
from strandline.stores.files import FileStore
from strandline.stores.memory import MemoryStore
from strandline.stores.sqlite import SqliteStore

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "contract.md"
KINDS = {
    "memory:": MemoryStore.capabilities,
    "sqlite:": SqliteStore.capabilities,
    "file:": FileStore.capabilities,
}


def table() -> dict[str, dict[str, str]]:
    """Return the cells of the table, by row and kind."""
    text = PAGE.read_text(encoding="utf-8")
    begin = text.index("## What each backend reaches")
    lines = re.findall(r"^\|.*\|$", text[begin:], re.MULTILINE)
    rows = [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in lines]
    kinds = rows[0][1:]
    return {row[0]: dict(zip(kinds, row[1:], strict=False)) for row in rows[2:]}


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_says_what_a_store_declares(kind: str) -> None:
    declared: Capabilities = KINDS[kind]
    cells = {row: found[kind] for row, found in table().items() if kind in found}

    assert cells["highest level"] == declared.durability_max.name.lower()
    reach = {"process": "no", "machine": "yes, one machine", "network": "yes, any host"}
    assert cells["several processes at once"] == reach[str(declared.reach)]
    assert cells["the caller's own transaction"].startswith("yes") is declared.has_transactions
    assert cells["segments that are sealed as columns"].startswith("yes") is declared.has_segments
