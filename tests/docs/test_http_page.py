"""The page of the HTTP interface is what the endpoints say."""

from tools.http_page import PAGE, page


def test_the_page_is_made_from_the_endpoints() -> None:
    assert PAGE.read_text() == page(), "run python -m tools.http_page"
