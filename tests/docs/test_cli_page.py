"""The page of the command line is what the commands say of themselves."""

from tests.cli.program import PREPARATION
from tools.cli_page import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(PREPARATION), "run make pages"


def test_empty_defaults_and_those_in_the_help_are_left_out() -> None:
    text = page(PREPARATION)

    assert "Without it: ``" not in text
    assert "without it SPARK_REMOTE, then local[*]. |" in text
