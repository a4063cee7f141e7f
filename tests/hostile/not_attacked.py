"""What is left out of the attack, and why."""

from tests.hostile.good_calls import CALLS

_RESULTS = "is made by Strandline, for callers to read"
_ABSTRACT = "is a protocol; what implements it is attacked"
_DOUBLE = "is a double of the file system, and says what that says"
_CATALOGUE = "takes a segment that the catalogue itself has returned, and is called by `tier`"

NOT_ATTACKED: dict[str, str] = {
    **dict.fromkeys(
        (
            *("CaughtUp", "ConsumerProgress", "DeliveredBatch", "Delivery", "FellBehind"),
            *("LiveSubscription", "ProofHead", "ProofReport", "TopicDefinition", "TierReport"),
            *("TierReport.with_added", "Counters", "DeadLetter", "Trigger", "PartitionHealth"),
            *("Publication", "ViewHealth", "Predicate", "Scope", "ScopedSubscription"),
            *("Subscription", "Assignment", "CopiedSegment.epoch_run", "SavedPartition"),
            *("SavedView", "Scan", "Counters.count"),
            *("ErasureReport", "Quota", "QuotaUsage"),
        ),
        _RESULTS,
    ),
    **dict.fromkeys(
        (
            *("Broker.attach", "Broker.live", "Broker.publish", "Stream.next"),
            *("ObjectStore.delete", "ObjectStore.get", "ObjectStore.get_end"),
            *("ObjectStore.list", "ObjectStore.put"),
        ),
        _ABSTRACT,
    ),
    **dict.fromkeys(
        ("View.apply", "View.check", "View.decode", "View.encode", "View.initial"),
        "is written by the user",
    ),
    **dict.fromkeys(
        ("Event.columns", "Event.load", "Event.load_many"),
        "takes what `parts` has returned, and checks it when it is looked at",
    ),
    **dict.fromkeys(("Log", "Tier", "Tier.footers", "Tier.over"), "is called by `open`"),
    "Tier.columns": "is called by `scan`",
    "open_consumer": "is called by `Log.consumer`",
    "event_columns": "takes what a topic declares",
    **dict.fromkeys(
        (
            *("Scan.filter", "Scan.get_fragments", "Scan.replace_schema", "Scan.scanner"),
            *("Scan.sort_by", "Scan.to_duckdb"),
        ),
        "takes what Arrow's and DuckDB's own take, and raises what they raise",
    ),
    "as_json": "means by TypeError that it does not know a type, as an encoder does",
    **dict.fromkeys(("spark.register", "spark.table"), "asks the Spark session for everything"),
    **dict.fromkeys(("spark.cluster_session", "spark.local_session"), "starts Spark"),
    "spark.remote_session": "connects to a Spark server",
    **dict.fromkeys(
        (
            *("jobs.AuditFinding", "jobs.AuditReport", "jobs.FlowReport"),
            *("jobs.FolderReport", "jobs.RebuildReport", "jobs.TierJobReport", "spark.Java"),
            *("pipelines.PipelineReport", "jobs.Covered.same_request"),
        ),
        _RESULTS,
    ),
    "PendingView.become": "takes a live view",
    **dict.fromkeys(
        (
            *("SegmentCatalogue.add", "SegmentCatalogue.change", "SegmentCatalogue.evict"),
            "SegmentCatalogue.delete_partition",
        ),
        _CATALOGUE,
    ),
    **dict.fromkeys(
        (
            *("FakeClock.call_later", "FakeClock.random_bytes", "FakeClock.wait"),
            "FakeClock.wait_for_waiters",
        ),
        "is what a log calls of a clock",
    ),
}


def not_attacked(name: str) -> str | None:
    """Return why a callable is left out; None for one that is attacked."""
    first = name.partition(".")[0]
    if first in ("FaultyIo", "Fault", "Operation", "FaultyBroker"):
        return _DOUBLE
    if first == "Opening" or (first.startswith("Async") and name not in CALLS):
        return "does what the blocking face does, which is attacked"
    if first == "PendingCatalogue":
        return "hands on to the catalogue"
    if first == "PendingView" and name.replace("Pending", "Live", 1) in CALLS:
        return "hands on to the live view"
    return NOT_ATTACKED.get(name)
