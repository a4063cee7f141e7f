"""The write coordinator: it orders, batches and flushes the writes of any store.

Promises: every accepted write gets one epoch and one outcome, which its caller gets;
applied <= written <= durable, and none of the three ever goes back; a waiting thread
does the work of all if no other thread does; the first failed flush or sync ends the
coordinator with its cause.

Does not promise an order between channels, and does not interpret writes.
"""

from strandline.writes.channel import Channel
from strandline.writes.contracts import Bracket, Delta, Flusher
from strandline.writes.coordinator import Coordinator
from strandline.writes.metrics import SAMPLED_EVERY, Distribution, FlushReason, WriteMetrics
from strandline.writes.receipt import WriteId, WriteReceipt
from strandline.writes.settings import Settings
from strandline.writes.subscriber import Monitor, Subscriber, Update
from strandline.writes.view import Stamped, WriteView

__all__ = [
    "SAMPLED_EVERY",
    "Bracket",
    "Channel",
    "Coordinator",
    "Delta",
    "Distribution",
    "FlushReason",
    "Flusher",
    "Monitor",
    "Settings",
    "Stamped",
    "Subscriber",
    "Update",
    "WriteId",
    "WriteMetrics",
    "WriteReceipt",
    "WriteView",
]
