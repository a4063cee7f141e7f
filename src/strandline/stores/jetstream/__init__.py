"""A log on NATS JetStream. See design 0111.

Promises: offsets are dense, and an append is stored once however often it had to be sent;
what is acknowledged was stored by a quorum of the stream's replicas. Does not see how a server
syncs unless it may ask the system account, and claims no more than it knows.
"""

from strandline.stores.jetstream.store import JetStreamStore

__all__ = ["JetStreamStore"]
