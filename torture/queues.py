"""Work queues, one seeded life at a time."""

from tests.subscriptions.queue_schedules import QueueLife


def live_queue(seed: int) -> None:
    """Let members join, work, stall, die and leave, and hold the queue to its promises."""
    QueueLife(seed).run()
