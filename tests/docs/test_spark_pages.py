"""The pages on Spark match the code."""

import re
from pathlib import Path

from strandline.spark.options import BATCH_ONLY, READ_OPTIONS, STREAM_ONLY

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "spark-read.md"


def test_the_page_names_every_option_once_and_says_what_it_is_for() -> None:
    rows = re.findall(r"^\| (`.*?`) \| (both|batch|stream) \|", PAGE.read_text(), re.MULTILINE)
    named = {name: use for names, use in rows for name in re.findall(r"`([\w.]+)`", names)}

    use = dict.fromkeys(READ_OPTIONS, "both")
    use |= dict.fromkeys(BATCH_ONLY, "batch") | dict.fromkeys(STREAM_ONLY, "stream")
    assert named == use
