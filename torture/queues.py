"""Work queues and delayed records, one seeded life at a time."""

from tests.subscriptions.delayed_schedules import DelayedLife
from tests.subscriptions.queue_schedules import QueueLife


def live_queue(seed: int) -> None:
    """Let members join, work, stall, die and leave, and hold the queue to its promises."""
    QueueLife(seed).run()


def live_delayed(seed: int) -> None:
    """Let a consumer work, fail, end and be succeeded, while records come at their times."""
    DelayedLife(seed).run()
