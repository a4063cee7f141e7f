"""A request that has arrived completely is split into its head and its body."""

import pytest

from strandline._core import IS_COMPILED
from tests.core.plain import needs_core

if IS_COMPILED:
    from strandline._core.core import split_request

pytestmark = needs_core


def test_the_length_is_left_out_of_the_head() -> None:
    whole = b"POST / HTTP/1.1\r\nContent-Length: 3\r\nHost: a\r\n\r\nabc"
    at_the_end = b"POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 0\r\n\r\n"

    assert split_request(whole) == (b"POST / HTTP/1.1\r\nContent-Length: \r\nHost: a", b"abc")
    assert split_request(at_the_end) == (b"POST / HTTP/1.1\r\nHost: a\r\ncontent-length: ", b"")


def test_the_body_may_look_like_another_head() -> None:
    body = b"\r\n\r\nLength: 1\r\n\r\n"
    found = split_request(b"P\r\nLength: %d\r\n\r\n%b" % (len(body), body))

    assert found == (b"P\r\nLength: ", body)


@pytest.mark.parametrize(
    "length", ["", "2", "4", "03", "+3", " 3", "3 ", "3a", "0x3", "3\n", "9" * 12]
)
def test_another_length_than_that_of_the_body_is_none(length: str) -> None:
    assert split_request(f"P\r\nLength: {length}\r\n\r\nabc".encode()) is None


@pytest.mark.parametrize("whole", [b"", b"\r\n\r\n", b"ength: 0", b"P\r\n\r\n", b"ength: \r\n\r\n"])
def test_what_has_no_length_is_none(whole: bytes) -> None:
    assert split_request(whole) is None
