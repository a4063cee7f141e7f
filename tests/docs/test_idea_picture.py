"""The picture of the one idea is drawn from its text."""

from tools.idea_picture import PICTURE, TEXT, picture


def test_the_picture_is_up_to_date() -> None:
    assert PICTURE.read_text() == picture(TEXT.read_text()), "run python -m tools.idea_picture"


def test_each_reader_of_the_text_is_in_the_picture() -> None:
    drawn = picture("log a 2\ncursor 1 a reader <1>\nappend new\nhint more\n")

    assert "a reader &lt;1&gt;" in drawn
    assert drawn.count("<rect") == 3
