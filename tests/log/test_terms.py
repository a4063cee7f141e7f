"""The terms of an append: the quick ways come to what the long ways come to."""

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.log.terms import AppendTerms, Terms, terms_of
from strandline.values import Durability, InvalidError

terms = st.one_of(
    st.builds(Terms),
    st.builds(Terms, partition=st.integers(0, 5)),
    st.builds(Terms, idempotency_key=st.text(min_size=1, max_size=3)),
    st.builds(Terms, producer=st.sampled_from("abc"), sequence=st.just(0)),
    st.builds(Terms, expected_offset=st.integers(0, 3)),
)


@pytest.mark.slow
@given(terms, st.none() | st.sampled_from("abcdef"), st.integers(1, 4))
def test_one_value_is_routed_like_a_batch_of_one(
    terms: Terms, key: str | None, partitions: int
) -> None:
    try:
        ((partition, indices),) = terms.route([key], partitions, lambda: 7).items()
    except InvalidError as error:
        with pytest.raises(InvalidError, match=str(error).split(",", maxsplit=1)[0]):
            terms.route_one(key, partitions, lambda: 7)
    else:
        assert list(indices) == [0]
        assert terms.route_one(key, partitions, lambda: 7) == partition


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partition", 0),
        ("tenant", "acme"),
        ("idempotency_key", "k"),
        ("expected_offset", 0),
        ("timeout_s", 0),
    ],
)
def test_terms_are_plain_only_where_a_level_was_given_at_most(name: str, value: object) -> None:
    assert terms_of({}).is_plain
    for level in (Durability.DURABLE, "durable"):
        named = terms_of(cast("AppendTerms", {"durability": level}))
        assert named.is_plain
        assert named.level(Durability.DURABLE) is Durability.DURABLE

    given = terms_of(cast("AppendTerms", {name: value}))

    assert getattr(given, name) == value
    assert not given.is_plain


def test_a_producer_alone_is_refused() -> None:
    with pytest.raises(InvalidError, match="go together"):
        terms_of({"producer": "p"})
    with pytest.raises(InvalidError, match="go together"):
        terms_of({"sequence": 0})
