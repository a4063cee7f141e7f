"""The sizes of each entry: large enough for a stable figure, or minimal for tests."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Counts for one round, if not noted otherwise."""

    singles_written: int
    singles_durable: int
    #: Of single events to a store that makes files for each of them.
    commits: int
    batches: int
    batch_events: int
    arrow_batches: int
    arrow_rows: int
    #: How many processes four are, and how many subscribers eight.
    four: int
    eight: int
    #: Of each of sixteen producers, and of each of four processes.
    producer_written: int
    producer_durable: int
    replay_events: int
    tail_events: int
    bytes_events: int
    #: Small enough that what a log keeps ready for later does not count as an event's.
    bytes_segment: int
    growth_small: int
    growth_large: int
    copies_small: int
    copies_large: int
    #: Of one bulk call, rising; and topics that there are, few and many.
    bulk_values: tuple[int, int, int, int, int]
    bulk_topics: tuple[int, int]
    log_bytes: int
    topics: int
    subscribers: int
    #: Of a state in memory, and of how many questions to it; of a view that starts again.
    state_events: int
    state_reads: int
    view_events: int
    tier_events: int
    typed_batches: int
    spark_events: int
    spark_batches: int
    audit_events: int
    cold_objects: int
    predicate_rows: int
    #: Of a consumer that acks cumulatively, of one whose acks are durable, and of a group.
    consumer_records: int
    consumer_acked: int
    consumer_shared: int
    #: Of a trigger whose function does nothing.
    triggered: int
    #: Requests of all connections to a server, of single events and of batches; connections
    #: that are many, and streams that are read.
    served_requests: int
    served_batches: int
    served_many: int
    served_readers: int


FULL = Sizes(
    singles_written=5_000,
    singles_durable=1_000,
    commits=50,
    batches=20,
    batch_events=1_000,
    arrow_batches=20,
    arrow_rows=10_000,
    four=4,
    eight=8,
    producer_written=1_000,
    producer_durable=150,
    replay_events=1_000_000,
    tail_events=1_000,
    bytes_events=200_000,
    bytes_segment=4 << 20,
    growth_small=10_000,
    growth_large=10_000_000,
    copies_small=100,
    copies_large=10_000,
    bulk_values=(10, 100, 1_000, 10_000, 100_000),
    bulk_topics=(10, 10_000),
    log_bytes=1 << 30,
    topics=10_000,
    subscribers=1_000,
    state_events=50_000,
    state_reads=200_000,
    view_events=5_000_000,
    tier_events=200_000,
    typed_batches=300,
    spark_events=1_000_000,
    spark_batches=40,
    audit_events=10_000_000,
    cold_objects=100_000,
    predicate_rows=1_000_000,
    consumer_records=200_000,
    consumer_acked=20_000,
    consumer_shared=4_000,
    triggered=40_000,
    served_requests=16_384,
    served_batches=640,
    served_many=256,
    served_readers=1_000,
)

TINY = Sizes(
    singles_written=20,
    singles_durable=5,
    commits=2,
    batches=2,
    batch_events=20,
    arrow_batches=2,
    arrow_rows=20,
    four=2,
    eight=2,
    producer_written=5,
    producer_durable=2,
    replay_events=200,
    tail_events=20,
    bytes_events=200,
    bytes_segment=1 << 20,
    growth_small=20,
    growth_large=100,
    copies_small=5,
    copies_large=20,
    bulk_values=(1, 2, 3, 4, 5),
    bulk_topics=(1, 5),
    log_bytes=100_000,
    topics=10,
    subscribers=10,
    state_events=1_000,
    state_reads=1_000,
    view_events=2_000,
    tier_events=2_000,
    typed_batches=3,
    spark_events=2_000,
    spark_batches=3,
    audit_events=2_000,
    cold_objects=100,
    predicate_rows=2_000,
    consumer_records=300,
    consumer_acked=200,
    consumer_shared=40,
    triggered=300,
    served_requests=64,
    served_batches=16,
    served_many=32,
    served_readers=10,
)
