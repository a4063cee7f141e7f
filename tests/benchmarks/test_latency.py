"""How long an event takes."""

import pytest

from benchmarks.events import samples
from benchmarks.latency import percentile_us, publish


def test_every_delivery_to_every_subscriber_counts() -> None:
    begun = [0.0] * 100
    quick, slow = [0.000_010] * 100, [0.000_030] * 100

    assert percentile_us(begun, [quick, quick, slow], 50) == pytest.approx(10)
    assert percentile_us(begun, [quick, quick, slow], 99) == pytest.approx(30)


def test_a_delivery_that_is_missing_is_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        percentile_us([0.0, 0.0], [[1.0]], 50)


def test_each_event_is_published_once_in_order() -> None:
    published: list[object] = []

    begun = publish(published.append, samples(5))

    assert published == samples(5)
    assert begun == sorted(begun)
