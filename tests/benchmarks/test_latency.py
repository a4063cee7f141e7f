"""How long an event takes."""

from pathlib import Path

import pytest

from benchmarks.events import samples
from benchmarks.latency import Rounds, latencies_us, publish


def test_every_delivery_to_every_subscriber_counts() -> None:
    begun = [0.0] * 100
    quick, slow = [0.000_010] * 100, [0.000_030] * 100

    late = latencies_us(begun, [quick, slow])

    assert late == pytest.approx([10] * 100 + [30] * 100)


def test_a_delivery_that_is_missing_is_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        latencies_us([0.0, 0.0], [[1.0]])


def test_percentiles_share_their_rounds_and_take_each_once(tmp_path: Path) -> None:
    measured = iter([[1.0] * 99 + [7.0, 7.0], [2.0] * 99 + [8.0, 8.0], [3.0] * 101])
    rounds = Rounds(lambda scratch: next(measured))

    medians = [rounds.percentile(50, tmp_path) for _ in range(2)]
    highest = [rounds.percentile(99, tmp_path) for _ in range(3)]

    assert (medians, highest) == ([1, 2], [7, 8, 3])


def test_each_event_is_published_once_in_order() -> None:
    published: list[object] = []

    begun = publish(published.append, samples(5))

    assert published == samples(5)
    assert begun == sorted(begun)
