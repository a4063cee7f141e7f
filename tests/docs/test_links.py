"""Each link inside the pages leads to a page, a file or a heading that is there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FRONT = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md")]
PAGES = [*FRONT, *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^( *)(`{3,}).*?^\1\2", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"!?\[[^\]\[]*(?:\[[^\]]*\][^\]\[]*)*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+?)#*$", re.MULTILINE)


def broken(page: Path, text: str) -> Iterator[str]:
    """Yield each link of a page that leads nowhere."""
    prose = _CODE.sub("", _FENCE.sub("", text))
    for link in _LINK.findall(prose):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists():
            yield link
        elif anchor and target.suffix == ".md":
            found = text if target == page else target.read_text()
            if anchor not in anchors(found):
                yield link


def anchors(text: str) -> set[str]:
    """Return what the headings of a page can be linked by."""
    named: dict[str, int] = {}
    found = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", shown).strip().lower())
        number = named[slug] = named.get(slug, -1) + 1
        found.add(f"{slug}_{number}" if number else slug)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda each: each.relative_to(ROOT).as_posix())
def test_each_link_leads_somewhere(page: Path) -> None:
    assert list(broken(page, page.read_text())) == []


@pytest.mark.parametrize(
    "link", ["[a](missing.md)", "[a](index.md#missing)", "[a](#missing)", "![a](images/no.svg)"]
)
def test_a_link_that_leads_nowhere_is_found(link: str) -> None:
    assert len(list(broken(ROOT / "docs" / "index.md", f"# Here\n\nSee {link}.\n"))) == 1


def test_what_is_code_is_no_link() -> None:
    text = "# Here\n\n`[a](b)` and [it](#here).\n\n```py\nx[0](missing)\n```\n"

    assert list(broken(ROOT / "docs" / "index.md", text)) == []
