"""The pages of the interface are what the docstrings say, and leave nothing public out."""

import re

import pytest

import strandline as sl
from tools.api_pages import FOLDER, NAMES, names_page, pages


@pytest.mark.slow
def test_the_pages_are_up_to_date() -> None:
    stored = {path.name: path.read_text() for path in FOLDER.glob("*.md")}

    assert stored == pages(), "run make pages"


@pytest.mark.slow
def test_every_public_name_has_its_place() -> None:
    page = pages()["strandline.md"]

    for name in sl.__all__:
        assert f"\n## {name}\n" in page


def test_every_public_name_stands_in_the_table() -> None:
    stored = NAMES.read_text()

    named = re.findall(r"^\| (?:\[)?`(\w+)`", stored, flags=re.MULTILINE)
    assert sorted(named) == sorted((*sl.__all__, "__version__"))
    assert stored == names_page(), "run make pages"


def test_each_link_of_the_table_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", NAMES.read_text()):
        path, _, anchor = target.partition("#")
        page = (NAMES.parent / path).read_text()
        assert not anchor or re.search(rf"^## {anchor}$", page, flags=re.MULTILINE | re.IGNORECASE)
