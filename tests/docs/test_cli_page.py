"""The page of the command line is what the commands say of themselves."""

from tests.cli.program import PREPARATION
from tools.cli_page import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(PREPARATION), "run make pages"
