"""Work queues and delayed records, one seeded run at a time."""

from tests.subscriptions.delayed_schedules import DelayedRun
from tests.subscriptions.queue_schedules import QueueRun


def run_queue(seed: int) -> None:
    """Have members join, work, stall, die and leave, and check what the queue guarantees."""
    QueueRun(seed).run()


def run_delayed(seed: int) -> None:
    """Have a consumer work, fail, end and be replaced, while delayed records become due."""
    DelayedRun(seed).run()
