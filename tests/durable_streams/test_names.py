"""The path of a stream and the name of its topic say the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.durable_streams import path_of, topic_name_of
from strandline.values import InvalidError, check_topic_name

_PATHS = st.text(
    st.one_of(st.sampled_from("aA0._-/"), st.characters(exclude_categories=("C", "Zl", "Zp"))),
    min_size=1,
    max_size=12,
)


@given(_PATHS)
def test_a_path_is_found_again_in_the_name_of_its_topic(path: str) -> None:
    name = topic_name_of(path)

    assert check_topic_name(name) == name
    assert path_of(name) == path


@given(_PATHS, _PATHS)
def test_two_paths_have_two_names(one: str, other: str) -> None:
    assert (topic_name_of(one) == topic_name_of(other)) == (one == other)


@pytest.mark.parametrize("name", ["orders", "order_items", "orders-eu", "v1.orders"])
def test_a_plain_path_is_the_name_itself(name: str) -> None:
    assert topic_name_of(name) == name


def test_a_slash_is_two_dots() -> None:
    assert topic_name_of("chats/42/tokens") == "chats..42..tokens"


@pytest.mark.parametrize("path", ["", "a\nb", "\x00", "a\u2028b"])
def test_a_path_with_control_characters_or_none_is_refused(path: str) -> None:
    with pytest.raises(InvalidError):
        topic_name_of(path)
