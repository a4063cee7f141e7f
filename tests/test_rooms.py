"""The order of the rooms is the same in import-linter, ARCHITECTURE and CONTRIBUTING.

What ARCHITECTURE names is there.
"""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONTRACT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]


def drawn(page: str) -> list[str]:
    """Return the lines of the stack that a page draws, without what each room is for."""
    (stack,) = re.findall(r"```\n(cli \|.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return [re.split(" {2,}", line)[0] for line in stack.splitlines()]


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_a_page_draws_the_rooms_in_the_order_that_is_checked(page: str) -> None:
    (layers,) = (each["layers"] for each in CONTRACT["contracts"] if each["type"] == "layers")
    checked = [re.sub(r"[()]", "", line) for line in layers]

    assert drawn(page) == [line for line in checked if line != "__main__"]


def test_each_room_has_its_row_in_the_table() -> None:
    rows = "\n".join(
        re.findall(r"^\| (`.*?) \|", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    )
    missing = {"active_log", "backups"}  # In the row of opening.

    rooms = {room for line in drawn("ARCHITECTURE.md") for room in line.split(" | ")}
    assert {room for room in rooms if f"`{room}`" not in rows} == missing


def test_each_file_that_the_page_names_is_there() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    named = re.findall(r"`([\w/*.-]+\.(?:py|pyi|c|h|md|json))`", page)
    drawn_files = re.findall(r"^(?:[\w.]+\.py(?:, | +|$))+", page, re.MULTILINE)
    files = {*named, *(name for line in drawn_files for name in re.findall(r"[\w.]+\.py", line))}

    places = (ROOT, ROOT / "src" / "strandline")
    missing = {
        name
        for name in files
        if not any((place / name).exists() for place in places)
        and not any((ROOT / "src").rglob(name))
    }
    assert files
    assert not missing
