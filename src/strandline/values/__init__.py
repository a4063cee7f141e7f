"""The values of a log: frozen, checked when made and when loaded.

Promises: a value that exists is valid, and means the same in every process and in
every release that can read it. Nothing here opens a file, reads a clock or draws a
random number, and nothing passed in is changed or silently corrected.

Does not depend on how values are stored or framed, or on which topics exist.
"""

from strandline.values.description import (
    ConsumerLag,
    HeldBack,
    LogDescription,
    RetentionStatus,
    Segment,
    TopicDescription,
    TrimReport,
)
from strandline.values.durability import Durability, DurabilityName
from strandline.values.erasure import ErasureReport, TopicErasure
from strandline.values.errors import (
    ClosedError,
    ConflictError,
    CorruptError,
    DivergedError,
    DroppedError,
    FailedError,
    FullError,
    InvalidError,
    LeaseLostError,
    NotReadyError,
    QuotaError,
    RejectedError,
    StrandlineError,
    TrimmedError,
    UnavailableError,
    UnknownError,
)
from strandline.values.event import Event
from strandline.values.instants import us_from_datetime
from strandline.values.internal_topics import check_may_shorten
from strandline.values.limits import (
    CONSUMER_IDLE_S,
    IDEMPOTENCY_KEYS_KEPT,
    IDENTITY_AGE_S,
    PRODUCER_SEQUENCES_KEPT,
    RECORD_BYTES_MAX,
    REQUEST_RECORDS_MAX,
)
from strandline.values.log_url import NO_LOG, LogUrl, parse_log_url
from strandline.values.mode import Mode, ModeName
from strandline.values.names import (
    check_case_twin,
    check_consumer_name,
    check_idempotency_key,
    check_producer_name,
    check_tenant_name,
    check_topic_name,
)
from strandline.values.partitioning import murmur2, partition_for_key
from strandline.values.payloads import as_json
from strandline.values.position import (
    Epoch,
    Marks,
    Position,
    check_position,
    checked_position,
    epoch_before,
)
from strandline.values.proof import ProofFinding, ProofHead, ProofReport
from strandline.values.quota import Quota, QuotaLimits, QuotaUsage
from strandline.values.record import Record
from strandline.values.source_message import SourceMessage
from strandline.values.tenant import Tenant, parse_tenant
from strandline.values.topic import (
    EARLIEST,
    LATEST,
    UNCHANGED,
    EarlierPartitions,
    Limit,
    Offset,
    Partition,
    Start,
    StartName,
    Topic,
    TopicOptions,
    TopicSettings,
    Unchanged,
    ValueKind,
    ValueKindName,
    sorted_metadata,
)

__all__ = [
    "CONSUMER_IDLE_S",
    "EARLIEST",
    "IDEMPOTENCY_KEYS_KEPT",
    "IDENTITY_AGE_S",
    "LATEST",
    "NO_LOG",
    "PRODUCER_SEQUENCES_KEPT",
    "RECORD_BYTES_MAX",
    "REQUEST_RECORDS_MAX",
    "UNCHANGED",
    "ClosedError",
    "ConflictError",
    "ConsumerLag",
    "CorruptError",
    "DivergedError",
    "DroppedError",
    "Durability",
    "DurabilityName",
    "EarlierPartitions",
    "Epoch",
    "ErasureReport",
    "Event",
    "FailedError",
    "FullError",
    "HeldBack",
    "InvalidError",
    "LeaseLostError",
    "Limit",
    "LogDescription",
    "LogUrl",
    "Marks",
    "Mode",
    "ModeName",
    "NotReadyError",
    "Offset",
    "Partition",
    "Position",
    "ProofFinding",
    "ProofHead",
    "ProofReport",
    "Quota",
    "QuotaError",
    "QuotaLimits",
    "QuotaUsage",
    "Record",
    "RejectedError",
    "RetentionStatus",
    "Segment",
    "SourceMessage",
    "Start",
    "StartName",
    "StrandlineError",
    "Tenant",
    "Topic",
    "TopicDescription",
    "TopicErasure",
    "TopicOptions",
    "TopicSettings",
    "TrimReport",
    "TrimmedError",
    "UnavailableError",
    "Unchanged",
    "UnknownError",
    "ValueKind",
    "ValueKindName",
    "as_json",
    "check_case_twin",
    "check_consumer_name",
    "check_idempotency_key",
    "check_may_shorten",
    "check_position",
    "check_producer_name",
    "check_tenant_name",
    "check_topic_name",
    "checked_position",
    "epoch_before",
    "murmur2",
    "parse_log_url",
    "parse_tenant",
    "partition_for_key",
    "sorted_metadata",
    "us_from_datetime",
]
