"""Every page can be reached: without a site from the first page, and in the site by its menu."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if path.name != "index.md")
LINK = re.compile(r"\[[^\]]*\]\(([^)#]+\.md)(?:#[^)]*)?\)")


def links_of(page: Path) -> set[Path]:
    return {(page.parent / each).resolve() for each in LINK.findall(page.read_text())}


def test_every_page_is_reached_from_the_first() -> None:
    first = links_of(DOCS / "index.md")
    errors = links_of(DOCS / "reference" / "errors.md")

    missing = set(PAGES) - first - errors
    assert not missing, f"link these in docs/index.md: {sorted(map(str, missing))}"


@pytest.mark.parametrize("page", [DOCS / "index.md", *PAGES], ids=lambda each: each.stem)
def test_every_link_to_a_page_leads_to_one(page: Path) -> None:
    for target in links_of(page):
        assert target.exists(), target


def test_the_menu_of_the_site_has_every_page_once() -> None:
    menu = (DOCS.parent / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = re.findall(r": ([\w./-]+\.md)$", menu, re.MULTILINE)

    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert not pages - set(named), "add these to nav in mkdocs.yml"
    assert sorted(named) == sorted(pages)


def test_no_page_installs_from_an_index_that_does_not_have_it() -> None:
    pages = [DOCS.parent / "README.md", DOCS / "index.md", *PAGES]
    found = [
        page.name for page in pages if re.search(r"pip install ['\"]?strandline", page.read_text())
    ]

    assert found == []


def test_the_readme_has_the_command_that_ci_runs() -> None:
    readme = (DOCS.parent / "README.md").read_text()
    gate = (DOCS.parent / ".ci" / "run").read_text()

    assert "\nmake test " in readme
    assert "\nfor target in test " in gate
