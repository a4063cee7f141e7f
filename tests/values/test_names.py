"""One checker for every name; hostile names of every kind are refused with the reason."""

import string
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.values import (
    InvalidError,
    check_case_twin,
    check_consumer_name,
    check_idempotency_key,
    check_producer_name,
    check_tenant_name,
    check_topic_name,
    parse_tenant,
)

ALPHABET = string.ascii_letters + string.digits + "._-"
PLAIN_CHECKS = [check_topic_name, check_tenant_name]
FREE_CHECKS = [check_consumer_name, check_producer_name]
EVERY_CHECK = [*PLAIN_CHECKS, *FREE_CHECKS, check_idempotency_key]
Check = Callable[[object], str]

HOSTILE_PLAIN_NAMES = [
    ("", "is empty"),
    (".", "begin with"),
    ("..", "begin with"),
    ("../x", "character='/'"),
    ("..\\x", "character='\\\\\\\\'"),
    ("/etc/passwd", "character='/'"),
    ("a/b", "character='/'"),
    ("C:\\x", "character=':'"),
    ("a\x00b", "character='\\\\x00'"),
    ("a\nb", "character='\\\\n'"),
    ("orders\n", "character='\\\\n'"),
    ("orders ", "character=' '"),
    (" orders", "character=' '"),
    (" ", "character=' '"),
    ("orders.", "end in"),
    ("orders..", "end in"),
    (".orders", "begin with"),
    ("-orders", "begin with"),
    ("--help", "begin with"),
    ("x" * 201, "bytes=201 bytes_max=200"),
    ("x" * 4096, "bytes=4096 bytes_max=200"),
    ("\u043erders", "character='\\\\u043e'"),
    ("orders\u200b", "character='\\\\u200b'"),
    ("\uff4frders", "character='\\\\uff4f'"),
    ("ordérs", "character='\\\\xe9'"),
    ("orde\u0301rs", "character='\\\\u0301'"),
    ("\u0661", "character='\\\\u0661'"),
    ("a\ud800", "surrogate"),
    ("a*b", "character='\\*'"),
    ("a'; DROP TABLE x", 'character="\'"'),
    ("\x1b[31mred", "character='\\\\x1b'"),
    ("%2e%2e", "character='%'"),
    ("~", "character='~'"),
]


@pytest.mark.parametrize("check", PLAIN_CHECKS)
@pytest.mark.parametrize(("name", "reason"), HOSTILE_PLAIN_NAMES)
def test_a_hostile_topic_or_tenant_name_is_refused_with_its_reason(
    check: Check, name: str, reason: str
) -> None:
    with pytest.raises(InvalidError, match=reason):
        check(name)


@pytest.mark.parametrize("check", PLAIN_CHECKS)
@pytest.mark.parametrize(
    "name",
    ["a", "0", "_", "orders", "Orders-2.v1", "a..b", "x-", "x" * 200, "trigger.inbox", "CON"],
)
def test_a_plain_topic_or_tenant_name_is_taken_as_it_is(check: Check, name: str) -> None:
    assert check(name) == name


def is_plain_name(name: str) -> bool:
    return (
        all(character in ALPHABET for character in name)
        and 1 <= len(name) <= 200
        and not name.startswith((".", "-"))
        and not name.endswith(".")
        and not name.lower().startswith("__strandline.")
    )


@pytest.mark.slow
@given(st.text(max_size=6) | st.text(ALPHABET, max_size=210))
def test_topic_names_are_exactly_those_of_a_simple_oracle(name: str) -> None:
    try:
        accepted = check_topic_name(name) == name
    except InvalidError:
        accepted = False

    assert accepted == is_plain_name(name)


@pytest.mark.parametrize("name", ["__strandline.tier", "__STRANDLINE.tier", "__strandline.x.y"])
def test_our_own_prefix_is_reserved_for_internal_topics(name: str) -> None:
    with pytest.raises(InvalidError, match="reserved"):
        check_topic_name(name)
    with pytest.raises(InvalidError, match="reserved"):
        check_tenant_name(name)

    assert check_topic_name(name, internal=True) == name


@pytest.mark.parametrize("name", ["__strandline", "__strandlines.x", "_strandline.x"])
def test_names_near_the_reserved_prefix_are_free(name: str) -> None:
    assert check_topic_name(name) == name


@pytest.mark.parametrize("check", EVERY_CHECK)
@pytest.mark.parametrize("value", [None, b"orders", 7, 1.5, True, ["orders"], object()])
def test_what_is_not_text_is_refused_like_any_bad_name(check: Check, value: object) -> None:
    with pytest.raises(InvalidError, match="not text"):
        check(value)


@pytest.mark.parametrize("check", EVERY_CHECK)
@pytest.mark.parametrize("name", ["\ud800", "a\udfff", "\udc00\ud800"])
def test_half_a_surrogate_pair_is_refused_everywhere(check: Check, name: str) -> None:
    with pytest.raises(InvalidError, match="surrogate"):
        check(name)


def test_a_subclass_of_str_becomes_the_plain_text_it_holds() -> None:
    class Loud(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "LOUD"

    name = check_topic_name(Loud("orders"))

    assert type(name) is str
    assert name == "orders"


@pytest.mark.parametrize("check", FREE_CHECKS)
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        (" ", "white space"),
        ("\u3000", "white space"),
        (" a", "white space"),
        ("a ", "white space"),
        ("a\xa0", "white space"),
        ("a\tb", "control"),
        ("a\nb", "control"),
        ("a\x00b", "control"),
        ("a\x7fb", "control"),
        ("a\x85b", "control"),
        ("a\u2028b", "control"),
        ("e\u0301", "composed form"),
        ("x" * 201, "bytes=201"),
        ("é" * 101, "bytes=202"),
    ],
)
def test_a_bad_consumer_or_producer_name_is_refused_with_its_reason(
    check: Check, name: str, reason: str
) -> None:
    with pytest.raises(InvalidError, match=reason):
        check(name)


@pytest.mark.parametrize("check", FREE_CHECKS)
@pytest.mark.parametrize(
    "name",
    [
        "a/b",
        "a_b",
        "../x",
        ".",
        "-",
        "é",
        "é" * 100,
        "billing service",
        "注文",
        "👩‍👩‍👧",
        "x" * 200,
    ],
)
def test_we4_any_readable_text_names_a_consumer_or_producer_exactly(
    check: Check, name: str
) -> None:
    assert check(name) == name


@pytest.mark.parametrize("key", ["k", " ", "\n", "x" * 1024, "é" * 512, "e\u0301", "\x00"])
def test_an_idempotency_key_is_any_text_up_to_its_limit(key: str) -> None:
    assert check_idempotency_key(key) == key


@pytest.mark.parametrize(
    ("key", "reason"), [("", "empty"), ("x" * 1025, "1025"), ("é" * 513, "1026")]
)
def test_an_empty_or_overlong_idempotency_key_is_refused(key: str, reason: str) -> None:
    with pytest.raises(InvalidError, match=reason):
        check_idempotency_key(key)


def test_a_name_that_differs_only_by_case_is_refused_and_its_twin_is_named() -> None:
    with pytest.raises(InvalidError, match="existing='Orders'"):
        check_case_twin("orders", ["billing", "Orders"])


def test_the_same_name_and_other_names_are_no_twins() -> None:
    check_case_twin("orders", ["orders", "order", "orders2", "ordersX"])
    check_case_twin("orders", [])


def test_no_tenant_stays_no_tenant() -> None:
    assert parse_tenant(None) is None
    assert parse_tenant("acme") == "acme"


def test_a_bad_tenant_is_refused_rather_than_taken_for_none() -> None:
    with pytest.raises(InvalidError):
        parse_tenant("")
