"""Checks all records of a log, hot and cold, in parallel. See design 0052."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from strandline.log import Log, TopicName
from strandline.opening import open_log
from strandline.spark.jobs.progress import Progress, Stopwatch, per_second
from strandline.spark.jobs.stretch import Checked, Copy, Stretch
from strandline.spark.jobs.tasks import run_each
from strandline.spark.log_urls import spark_url
from strandline.spark.source.places import SourcePartition
from strandline.spark.source.splits import SPLIT_BYTES, Extent, plan
from strandline.tiering import CopiedSegment, SegmentState, open_store
from strandline.tiering.cold_segments import ColdSegments
from strandline.tiering.segment import partition_of
from strandline.values import (
    CorruptError,
    InvalidError,
    Marks,
    Mode,
    Offset,
    ProofFinding,
    ProofHead,
    Segment,
    Topic,
)
from strandline.values.arguments import check_instance, check_items

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FALLS: Final = "its timestamp is before that of the record before it"
BROKEN: Final = "what lies before is not what was written there, or when"


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A difference from what was written, and its position."""

    topic: str
    tenant: str | None
    partition: int
    offset: int
    """The first offset that is affected."""
    reason: str
    location: str | None
    """Where the record is stored, if the log knows it."""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The result of an audit."""

    topics: int
    partitions: int
    records: int
    copies: int
    """Checked objects of the tier whose records the log still has, too."""
    seconds: float
    heads: tuple[ProofHead, ...]
    """The proof head of each partition that has a proof and no finding."""
    findings: tuple[AuditFinding, ...]

    @property
    def is_sound(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    @property
    def rows_per_s(self) -> float:
        """Records per second."""
        return per_second(self.records, self.seconds)


def audit(
    spark: "SparkSession",
    url: str | None,
    topics: Sequence[TopicName] | None = None,
    *,
    tenant: str | None = None,
    expected: Iterable[ProofHead] = (),
    progress: Progress | None = None,
) -> AuditReport:
    """Check these topics, or all topics of this tenant, or all topics, including internal ones.

    As `log.verify`, in parallel: offsets are dense and unique, timestamps never decrease, and
    checksums, digests of copies and the proof of history, if there is one, are right. It also
    checks copies of records that the log still has. Other processes may write, trim and tier
    meanwhile: the audit covers the records that exist when it begins.
    """
    watch, located = Stopwatch(), spark_url(url)
    given = [
        check_instance("expected", each, ProofHead) for each in check_items("expected", expected)
    ]
    chosen = None if topics is None else check_items("topics", topics)
    with open_log(located, mode=Mode.READ) as log:
        plans = _plans(log, located, chosen, tenant, given)
    stretches = [stretch for each in plans for stretch in each.stretches]
    copies = [copy for each in plans for copy in each.copies]
    checked = run_each(
        spark, stretches, Stretch.checked, size=lambda each: each.records, progress=progress
    )
    wrong = run_each(spark, copies, Copy.finding, size=lambda _: 0)
    found = iter(checked)
    heads: list[ProofHead] = []
    for each in plans:
        head = _join(each, [next(found) for _ in each.stretches])
        heads += [head] if head is not None else []
    findings = [finding for each in plans for finding in each.named()]
    for copy, problem in zip(copies, wrong, strict=True):
        if problem is not None:
            place = copy.topic, copy.segment.place.partition
            findings.append(_named(*place, problem, copy.segment.location))
    return AuditReport(
        topics=len({each.place.topic.id for each in plans}),
        partitions=len(plans),
        records=sum(each.records for each in checked),
        copies=len(copies),
        seconds=watch.seconds(),
        heads=tuple(heads),
        findings=tuple(findings),
    )


@dataclass(slots=True)
class _Plan:
    """A partition: the parts that tasks read, and the findings."""

    place: SourcePartition
    stretches: list[Stretch] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    findings: list[ProofFinding] = field(default_factory=list)
    segments: Sequence[Segment] = ()

    def named(self) -> list[AuditFinding]:
        ordered = sorted(self.findings, key=lambda each: each.offset)
        return [_named(*self.place, each, self._location(each.offset)) for each in ordered]

    def _location(self, offset: int) -> str | None:
        held = (each.location for each in self.segments if each.start <= offset < each.end)
        return next(held, None)


def _named(
    topic: Topic, partition: int, finding: ProofFinding, location: str | None
) -> AuditFinding:
    place = topic.name, topic.tenant, partition
    return AuditFinding(*place, finding.offset, finding.reason, location)


# --- before ---


def _plans(
    log: Log,
    url: str,
    names: Sequence[TopicName] | None,
    tenant: str | None,
    expected: list[ProofHead],
) -> list[_Plan]:
    if names is None:
        whose = [None, *log.tenants()] if tenant is None else [tenant]
        listed = [
            topic
            for each in whose
            for is_internal in (False, True)
            for topic in log.topics(tenant=each, internal=is_internal)
        ]
        chosen = list(dict.fromkeys(listed))
    else:
        chosen = [log.topic(name, tenant=tenant) for name in names]
    found: list[_Plan] = []
    for topic in chosen:
        count = log.describe_topic(topic).settings.partitions
        heads = [head for head in expected if head.topic_id == topic.id]
        if any(head.partition >= count for head in heads):
            raise InvalidError("a head is of a partition that the topic does not have")
        for number in range(count):
            own = [head for head in heads if head.partition == number]
            found.append(_plan(log, url, SourcePartition(topic, number), own))
    strange = {head.topic_id for head in expected} - {topic.id for topic in chosen}
    if strange:
        raise InvalidError("a head is of a topic that is not audited", topic_ids=sorted(strange))
    return found


def _plan(log: Log, url: str, place: SourcePartition, expected: list[ProofHead]) -> _Plan:
    made = _Plan(place)
    try:
        marks = log.marks(*place)
    except CorruptError as error:
        made.findings.append(ProofFinding(Offset(0), str(error)))
        return made
    runs = [(int(marks.low), int(marks.high), False)]
    try:
        made.segments = log.segments(*place)
        cold, copies = _copies(log, place, marks, made.segments)
        runs = [
            *((start, end, True) for start, end in _grouped(cold, marks)),
            *_hot(log, place, cold[-1].end if cold else int(marks.low), int(marks.high)),
        ] or runs
        made.copies = [Copy(url, place.topic, each) for each in copies]
    except CorruptError:
        # Reading every record finds the error.
        pass
    for index, (start, end, is_cold) in enumerate(runs):
        heads = tuple(
            head
            for head in expected
            if (index == 0 or head.offset >= start)
            and (index == len(runs) - 1 or head.offset < end)
        )
        made.stretches.append(
            Stretch(url, *place, start, end, is_cold, is_first=index == 0, expected=heads)
        )
    return made


def _copies(
    log: Log, place: SourcePartition, marks: Marks, segments: Sequence[Segment]
) -> tuple[list[CopiedSegment], list[CopiedSegment]]:
    """Return the copies that are read instead of records, in order, and the other copies."""
    known = partition_of(*place)
    cold = ColdSegments(log, open_store)
    finished = [each for each in cold.listed(known) if each.state is SegmentState.COPY_FINISHED]
    locations = {each.location for each in finished}
    border = max(
        (int(each.end) for each in segments if each.location in locations),
        default=int(marks.low),
    )
    needed = list(cold.chain(known, log.epochs(*place), int(marks.low), border))
    used = {each.id for each in needed}
    return needed, [each for each in finished if each.id not in used and each.end > marks.low]


def _grouped(copies: Sequence[CopiedSegment], marks: Marks) -> list[tuple[int, int]]:
    """Return ranges of whole copies, each of about the size that a task reads."""
    runs: list[tuple[int, int]] = []
    size = 0
    for copy in copies:
        start = max(copy.start, int(marks.low))
        if runs and size + copy.size_bytes <= SPLIT_BYTES:
            runs[-1] = runs[-1][0], copy.end
            size += copy.size_bytes
        else:
            runs.append((start if not runs else runs[-1][1], copy.end))
            size = copy.size_bytes
    return runs


def _hot(log: Log, place: SourcePartition, start: int, end: int) -> list[tuple[int, int, bool]]:
    if start >= end:
        return []
    return [(each.start, each.end, False) for each in plan(log, [Extent(place, start, end)])]


# --- after ---


def _join(made: _Plan, checked: Sequence[Checked]) -> ProofHead | None:
    """Add the findings of the stretches, and contradictions between them; return the head."""
    for each in checked:
        made.findings += each.findings
    for one, following in pairwise(checked):
        reasons = []
        if one.last_us is not None and following.first_us is not None:
            reasons += [FALLS] if following.first_us < one.last_us else []
        is_adjacent = one.stretch.end == following.start
        if is_adjacent and one.after is not None and following.before is not None:
            reasons += [BROKEN] if one.after != following.before else []
        made.findings += [ProofFinding(Offset(following.start), reason) for reason in reasons]
    if made.findings or not checked:
        return None
    return checked[-1].head
