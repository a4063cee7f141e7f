"""A log on NATS JetStream. See design 0111.

Promises: offsets are dense, and an append is stored once, however often it was sent;
acknowledged appends were stored by a quorum of the stream's replicas. Does not know how the
servers sync unless it may ask the system account, and promises no more than it knows.
"""

from strandline.stores.jetstream.store import JetStreamStore

__all__ = ["JetStreamStore"]
