"""Lag in records and in seconds, and whether it grows, of consumers that acked and that did not."""

import strandline as sl
from strandline.testing import FakeClock
from tests.subscriptions.doubles import fill


def test_lag_is_in_records_and_seconds_and_has_a_trend() -> None:
    clock = FakeClock()
    with sl.open("memory:", clock=clock) as log:
        log.create_topic("orders", partitions=2)
        with log.consumer("orders", "billing", clock=clock) as billing:
            fill(log, "orders", 0, 10)
            clock.advance(20.0)

            (behind, idle) = log.consumers("orders")
            assert (behind.lag, behind.lag_s, behind.trend) == (10, 20.0, 0.5)
            assert (idle.lag, idle.lag_s) == (0, 0.0)

            billing.ack(billing.fetch(timeout_s=0.0))
            clock.advance(20.0)
            (caught_up, _) = log.consumers("orders")
            assert (caught_up.lag, caught_up.lag_s, caught_up.trend) == (0, 0.0, 0.0)
            assert caught_up.is_live

        clock.advance(60.0)
        fill(log, "orders", 0, 3)
        (left, _) = log.consumers("orders")
        assert (left.lag, left.is_live, left.member, left.holds_retention) == (3, False, None, True)
        assert left.trend is not None
        assert left.trend > 0
