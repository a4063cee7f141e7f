"""Each error that a caller can meet has a page, to which it points, and a place in the tree."""

import re
from pathlib import Path

import strandline as sl
from strandline import predicates

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "errors.md"
PAGES = PAGE.with_suffix("")


def public_errors() -> dict[str, type[BaseException]]:
    named = {name: getattr(sl, name) for name in sl.__all__ if name.endswith("Error")}
    return named | {
        name: getattr(predicates, name) for name in predicates.__all__ if name.endswith("Error")
    }


def test_every_error_has_a_page_with_cause_reaction_and_example() -> None:
    texts = {path.stem: path.read_text() for path in PAGES.iterdir()}

    assert set(texts) == set(public_errors())
    listed = PAGE.read_text()
    for name, text in texts.items():
        assert text.startswith(f"# {name}\n"), name
        assert f"(errors/{name}.md)" in listed, name
        assert "```python" in text, name
        if name != "StrandlineError":
            assert "*Cause.*" in text, name
            assert "*What to do.*" in text, name


def test_every_error_says_where_its_page_is() -> None:
    for name, error in public_errors().items():
        assert f"docs/reference/errors/{name}.md" in (error.__doc__ or ""), name


def test_the_tree_shows_what_each_error_is_a_kind_of() -> None:
    tree = PAGE.read_text().split("```")[1]
    errors = public_errors()
    above: list[str] = []
    shown = set()
    for line in tree.strip().splitlines():
        found = re.search(r"\w+Error", line)
        assert found is not None
        depth = found.start() // 4
        above[depth:] = [found.group()]
        if depth:
            assert errors[above[depth]].__bases__ == (errors[above[depth - 1]],)
        shown.add(found.group())

    assert shown == set(errors)
