"""Text as dates and times: what Spark 4.3 made of each."""

import pytest

import strandline as sl
from strandline.predicates.casting import read_text
from strandline.predicates.sql_type import DATE, TIMESTAMP

DAY = 18_262
DAY_US = DAY * 86_400_000_000


@pytest.mark.parametrize(
    ("text", "days", "seconds"),
    [
        ("2020", DAY, 0),
        ("2020-1", DAY, 0),
        (" 2020-01-01 ", DAY, 0),
        ("2020-01-01T", DAY, None),
        ("2020-01-01 12", DAY, 43_200),
        ("2020-01-01 1:2:3", DAY, 3_723),
        ("2020-01-01T12:30", DAY, 45_000),
        ("2020-01-01T12:30Z", DAY, None),
        ("2020-01-01T12:30:00Z", DAY, 45_000),
        ("2020-01-01T12:30:00+01", DAY, 41_400),
        ("2020-01-01T12:30:00GMT+1", DAY, 41_400),
        ("2020-01-01T12:30:00 +01:00", DAY, 41_400),
        ("2020-01-01T12:30:00-18:01", DAY, None),
        ("2020-01-01x", None, None),
        ("2020-02-30", None, None),
        ("20200101", None, None),
        ("2020-01-01T24:00:00", DAY, None),
        # Of today in Spark, which no test could know.
        ("12:30", None, None),
    ],
)
def test_text_is_taken_as_spark_takes_it(text: str, days: int | None, seconds: int | None) -> None:
    assert read_text(text, DATE) == days
    expected = None if seconds is None else DAY_US + seconds * 1_000_000
    assert read_text(text, TIMESTAMP) == expected


@pytest.mark.parametrize("seconds", [1e303, -1e303, 1e300])
def test_a_number_far_beyond_any_time_is_no_time(seconds: float) -> None:
    with sl.open("memory:") as log:
        log.create_topic("t")
        log.append("t", sl.Event("k", {"at": seconds}))
        log.append("t", sl.Event("k", {"at": "2026-01-01T00:00:00Z"}))

        scan = log.scan("t", where="payload.at > TIMESTAMP '2020-01-01 00:00:00'")

        assert scan.count_rows() == 1
