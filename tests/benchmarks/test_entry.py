"""The ratio of ours to the others."""

import pytest

from benchmarks.entry import Entry


@pytest.mark.parametrize("unit", ["events/s", "MB/s"])
def test_of_rates_the_higher_is_better(unit: str) -> None:
    entry = Entry(name="a.b", unit=unit, contenders=lambda scratch: {})

    assert entry.ratio(ours=600, theirs=200) == 3


@pytest.mark.parametrize("unit", ["s", "µs", "bytes/event"])
def test_of_latencies_and_bytes_the_lower_is_better(unit: str) -> None:
    entry = Entry(name="a.b", unit=unit, contenders=lambda scratch: {})

    assert entry.ratio(ours=600, theirs=200) == pytest.approx(1 / 3)


def test_fewer_than_three_rounds_are_refused() -> None:
    with pytest.raises(AssertionError):
        Entry(name="a.b", unit="s", contenders=lambda scratch: {}, rounds=2)
