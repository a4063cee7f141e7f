"""The words of the log as values: frozen, checked when made and when loaded.

Promises: a value that exists is valid, and means the same in every process and in
every release that can read it. Nothing here opens a file, reads a clock or draws a
random number, and nothing passed in is changed or silently corrected.

Does not know how values are stored or framed, nor whether a topic exists.
"""

from strandline.values.durability import Durability
from strandline.values.errors import (
    ClosedError,
    ConflictError,
    CorruptError,
    DivergedError,
    FailedError,
    InvalidError,
    NotReadyError,
    RejectedError,
    StrandlineError,
    TrimmedError,
    UnavailableError,
    UnknownError,
)
from strandline.values.event import Event
from strandline.values.names import (
    check_case_twin,
    check_consumer_name,
    check_idempotency_key,
    check_producer_name,
    check_tenant_name,
    check_topic_name,
)
from strandline.values.partitioning import murmur2, partition_for_key
from strandline.values.record import Record
from strandline.values.tenant import Tenant, parse_tenant
from strandline.values.topic import (
    EARLIEST,
    LATEST,
    Offset,
    Partition,
    Start,
    Topic,
    TopicSettings,
    ValueKind,
)

__all__ = [
    "EARLIEST",
    "LATEST",
    "ClosedError",
    "ConflictError",
    "CorruptError",
    "DivergedError",
    "Durability",
    "Event",
    "FailedError",
    "InvalidError",
    "NotReadyError",
    "Offset",
    "Partition",
    "Record",
    "RejectedError",
    "Start",
    "StrandlineError",
    "Tenant",
    "Topic",
    "TopicSettings",
    "TrimmedError",
    "UnavailableError",
    "UnknownError",
    "ValueKind",
    "check_case_twin",
    "check_consumer_name",
    "check_idempotency_key",
    "check_producer_name",
    "check_tenant_name",
    "check_topic_name",
    "murmur2",
    "parse_tenant",
    "partition_for_key",
]
