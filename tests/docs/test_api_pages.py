"""The pages of the interface are what the docstrings say, and leave nothing public out."""

import re

import pytest

import strandline as sl
from strandline.opening import _KINDS
from tools.api_pages import FOLDER, NAMES, names_page, pages
from tools.api_subjects import SUBJECTS


@pytest.mark.slow
def test_the_pages_are_up_to_date() -> None:
    stored = {path.name: path.read_text() for path in FOLDER.glob("*.md")}

    assert stored == pages(), "run make pages"


@pytest.mark.slow
def test_every_public_name_has_one_page() -> None:
    headings = re.findall(
        r"^## (?:strandline\.(?:triggers\.)?)?(\w+)$", "".join(pages().values()), re.MULTILINE
    )

    errors = {path.stem for path in (FOLDER.parent / "errors").glob("*.md")}
    assert [name for name in sl.__all__ if name not in headings] == [
        name for name in sl.__all__ if name in errors
    ]
    assert [name for subject in SUBJECTS for name in subject.names if name not in sl.__all__] == []


@pytest.mark.slow
def test_options_that_a_call_takes_by_name_are_listed() -> None:
    page = pages()["log.md"]

    append = page.partition("### `Log.append`")[2].partition("```py")[2].partition("```")[0]
    for option in ("partition", "durability", "idempotency_key", "expected_offset", "deliver_at"):
        assert f"\n    {option}: " in append


def test_the_options_of_every_store_are_listed() -> None:
    opening = next(subject.opening for subject in SUBJECTS if subject.file == "opening.md")

    listed = re.findall(r"^\| `(\w+)`(?:, `(\w+)`)? \| ([^|]*) \|", opening, re.MULTILINE)
    found = {
        (scheme, option)
        for first, second, stores in listed
        for option in filter(None, (first, second))
        for scheme in re.findall(r"`(\w+):`", stores)
    }
    schemes = {scheme for scheme, _ in found} | {"sqlite", "memory"}
    assert found == {
        (scheme, option)
        for scheme in schemes
        for option in _KINDS[scheme].options
        if scheme != "https" or option == "tls_ca"
    } - {("http", "tls_ca")}


@pytest.mark.slow
def test_no_two_headings_of_a_page_have_one_anchor() -> None:
    for name, text in pages().items():
        headings = re.findall(r"^#+ (.*)$", re.sub(r"(?s)```.*?```", "", text), re.MULTILINE)
        anchors = [re.sub(r"[^\w-]", "", heading).lower() for heading in headings]

        assert len(anchors) == len(set(anchors)), name


def test_every_public_name_stands_in_the_table() -> None:
    stored = NAMES.read_text()

    named = re.findall(r"^\| (?:\[)?`(\w+)`", stored, flags=re.MULTILINE)
    assert sorted(named) == sorted((*sl.__all__, "__version__"))
    assert stored == names_page(), "run make pages"


def test_each_link_of_the_table_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", NAMES.read_text()):
        path, _, anchor = target.partition("#")
        page = (NAMES.parent / path).read_text()
        headings = re.findall(r"^## (.*)$", page, flags=re.MULTILINE)
        assert not anchor or anchor in [each.replace(".", "").lower() for each in headings]
