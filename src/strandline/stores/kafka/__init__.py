"""A log on Kafka. See design 0114.

Promises: offsets are dense, and an append is stored once however often it had to be sent; what
is acknowledged is in all replicas that are in sync. Reaches durable only where its topics have
flush.messages=1. Does not use Kafka's consumer groups, transactions or retention.
"""

from strandline.stores.kafka.store import KafkaStore

__all__ = ["KafkaStore"]
