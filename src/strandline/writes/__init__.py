"""The write coordinator: it orders, batches and flushes the writes of any store.

Promises: every accepted write gets one epoch and one outcome that its caller
learns; applied <= written <= durable, and none of the three ever goes back;
a waiting thread does the work when no other does, for all; the
first failed flush or sync ends the coordinator with its cause.

Does not promise an order between channels, and does not know what a write is.
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
