"""The page of errors has a section for each one that a caller can meet, in the tree's places."""

import re
from pathlib import Path

import strandline as sl
from strandline import predicates

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"


def public_errors() -> dict[str, type[BaseException]]:
    named = {name: getattr(sl, name) for name in sl.__all__ if name.endswith("Error")}
    return named | {
        name: getattr(predicates, name) for name in predicates.__all__ if name.endswith("Error")
    }


def test_every_error_has_a_section_with_cause_reaction_and_example() -> None:
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    texts = {text.partition("\n")[0]: text for text in sections}

    assert set(texts) == set(public_errors())
    for name, text in texts.items():
        assert "```python" in text, name
        if name != "StrandlineError":
            assert "*Cause.*" in text, name
            assert "*What to do.*" in text, name


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
