"""The pages of the interface are what the docstrings say, and leave nothing public out."""

import strandline as sl
from tools.api_pages import FOLDER, pages


def test_the_pages_are_up_to_date() -> None:
    stored = {path.name: path.read_text() for path in FOLDER.glob("*.md")}

    assert stored == pages(), "run python -m tools.api_pages"


def test_every_public_name_has_its_place() -> None:
    page = pages()["strandline.md"]

    for name in sl.__all__:
        assert f"\n## {name}\n" in page
