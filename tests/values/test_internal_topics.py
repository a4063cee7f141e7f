"""Every internal topic is in one table, which says who may shorten it."""

from pathlib import Path

import pytest

import strandline as sl
from strandline.values import InvalidError, check_may_shorten
from strandline.values.internal_topics import INTERNAL_TOPICS, SCHEMAS_TOPIC, SEGMENTS_TOPIC
from strandline.values.names import RESERVED_PREFIX

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "contract.md"


def test_no_room_names_an_internal_topic_that_is_not_in_the_table() -> None:
    source = ROOT / "src" / "strandline"
    spelled = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if f'"{RESERVED_PREFIX}' in path.read_text()
    }

    assert spelled == {"values/names.py", "testing/conformance_topics.py"}


def test_the_refusal_says_why_and_what_to_do() -> None:
    for name in (SEGMENTS_TOPIC, SCHEMAS_TOPIC):
        with pytest.raises(InvalidError, match=r"only index|cannot be read") as caught:
            check_may_shorten(name)
        assert "drop the" in str(caught.value).replace("trim or drop", "drop")
        assert caught.value.fields["topic"] == name


def test_a_topic_of_a_user_may_be_shortened_whatever_it_is_called() -> None:
    with sl.open("memory:") as log:
        for name in ("segments", "strandline.segments", "__strandline_segments"):
            log.create_topic(name)
            log.append(name, sl.Event("k", {}))

            assert log.trim(name, 0, 1).removed == 1


def test_the_page_says_of_each_whether_it_may_be_shortened() -> None:
    page = PAGE.read_text()

    for known in INTERNAL_TOPICS:
        name = f"{known.name}…" if known.name.endswith(".") else known.name
        may = f"never: {known.instead}" if known.cost is None else f"yes: {known.cost}"
        assert f"| `{name}` | {known.holds} | {may} |" in page
