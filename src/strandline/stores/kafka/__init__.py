"""A log on Kafka. See design 0114.

Promises: offsets are dense, and an append is stored once, however often it was sent;
acknowledged appends are on all in-sync replicas. Reaches durable only if its topics have
flush.messages=1. Does not use Kafka's consumer groups, transactions or retention.
"""

from strandline.stores.kafka.store import KafkaStore

__all__ = ["KafkaStore"]
