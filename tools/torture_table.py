"""The counts of tortures and mutants in docs/reference/guarantees.md, from torture/*.json.

python -m tools.torture_table     writes them
"""

import re
from pathlib import Path

from torture.counts import load, table
from torture.mutants import outcomes

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "guarantees.md"

_BLOCK = re.compile(r"(<!-- tortures -->\n).*?(<!-- end of tortures -->)", re.DOTALL)


def written(page: str) -> str:
    """Return the page with the counts of today."""
    block = f"{table(load())}\n{outcomes.table(outcomes.load(), outcomes.load_explained())}"
    made, count = _BLOCK.subn(lambda found: f"{found[1]}\n{block}\n{found[2]}", page)
    assert count == 1, "the page has one place for the table"
    return made


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
