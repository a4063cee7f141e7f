"""The words that people search for lead to a page, also where ours differ."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
WORDS = (
    *("DLQ", "at least once", "lag", "watermark", "checkpoint", "retention", "idempotency"),
    *("Kafka", "Redis Streams", "Celery", "SQS", "FastAPI", "Django", "pydantic", "Docker"),
)
#: The search of the site ranks a heading before the text, and shows it.
IN_HEADINGS = (
    *("dead letter", "consumer group", "exactly once", "outbox", "CDC", "backpressure"),
    *("compaction", "retention"),
)
_FENCE = re.compile(r"^( *)(`{3,}).*?^\1\2", re.DOTALL | re.MULTILINE)


def terms(text: str) -> list[str]:
    """Return the search terms of a text."""
    settings = (DOCS.parent / "mkdocs.yml").read_text()
    (separator,) = re.findall(r"^ +separator: '(.+)'$", settings, re.MULTILINE)
    return [term for term in re.split(separator, text.lower()) if term]


@pytest.mark.parametrize("word", IN_HEADINGS)
def test_a_search_for_a_word_that_most_people_use_finds_a_heading(word: str) -> None:
    pages = (path.read_text() for path in DOCS.rglob("*.md") if path.parent.name != "design")
    headings = [
        " ".join(terms(heading))
        for page in pages
        for heading in re.findall(r"^#+ (.+)$", _FENCE.sub("", page), re.MULTILINE)
    ]

    wanted = " ".join(terms(word))
    assert any(f" {heading}".find(f" {wanted}") >= 0 for heading in headings)


@pytest.mark.parametrize("word", WORDS)
def test_a_word_that_people_search_for_is_on_a_page(word: str) -> None:
    pages = [path for path in DOCS.rglob("*.md") if path.parent.name not in ("design", "api")]

    assert any(word.lower() in path.read_text().lower() for path in pages)


@pytest.mark.slow
def test_a_design_note_comes_after_a_page_of_the_same_words(tmp_path: Path) -> None:
    for place in ("design/group.md", "howto/group.md"):
        page = tmp_path / "docs" / place
        page.parent.mkdir(parents=True)
        page.write_text("# Consumer groups\n")
    hook = DOCS.parent / "tools" / "search_rank.py"
    settings = {
        "site_name": "a",
        "theme": {"name": "material", "font": False},
        "hooks": [str(hook)],
    }
    (tmp_path / "mkdocs.yml").write_text(json.dumps({**settings, "plugins": ["search"]}))

    built = [sys.executable, "-m", "mkdocs", "build", "--quiet"]
    subprocess.run(built, cwd=tmp_path, check=True, env={"NO_MKDOCS_2_WARNING": "1"})

    index = json.loads((tmp_path / "site" / "search" / "search_index.json").read_text())
    boosts = {each["location"]: each.get("boost", 1) for each in index["docs"]}
    assert boosts["design/group/"] < boosts["howto/group/"]
