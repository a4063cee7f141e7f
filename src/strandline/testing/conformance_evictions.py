"""Rules about freeing the storage of records that are kept elsewhere."""

from strandline.log import Log
from strandline.testing.conformance_checks import OpenLog, refused
from strandline.values import Event, InvalidError, TrimmedError


def evicting_moves_no_mark_cursor_or_position(open_log: OpenLog) -> None:
    log = _filled(open_log)
    log.seek("t", "slow", 0, 3)
    position = log.position("t", 0, 2)
    marks = log.marks("t", 0)

    assert log.evict("t", 0, 10) == 10

    assert (log.marks("t", 0).low, log.marks("t", 0).high) == (marks.low, marks.high)
    assert log.cursor("t", "slow", 0) == 3
    assert log.ack("t", "slow", 0, 5) == 5
    assert log.resolve(position) == 2
    log.seek("t", "slow", 0, 1)
    assert [lag.cursor for lag in log.consumers("t")] == [1]
    assert log.describe_topic("t").records == 10


def what_was_evicted_cannot_be_read_and_the_rest_can(open_log: OpenLog) -> None:
    log = _filled(open_log)

    log.evict("t", 0, 10)
    log.append("t", Event("k", 10))

    with refused(TrimmedError) as caught:
        list(log.read("t", 0, 0))
    assert caught.value.oldest == 10
    with refused(TrimmedError) as caught:
        list(log.read_batches("t", 0, 9))
    assert caught.value.oldest == 10
    assert [record.payload for record in log.read("t", 0, 10)] == [10]
    assert [(run.start, run.end) for run in log.segments("t", 0)] == [(10, 11)]


def evicting_less_than_was_evicted_changes_nothing_and_returns_where_storage_begins(
    open_log: OpenLog,
) -> None:
    log = _filled(open_log)
    assert log.evict("t", 0, 0) == 0

    log.evict("t", 0, 10)

    assert log.evict("t", 0, 0) == 10
    assert log.evict("t", 0, 4) == 10


def evicting_beyond_the_end_is_refused(open_log: OpenLog) -> None:
    log = _filled(open_log)

    with refused(InvalidError):
        log.evict("t", 0, 11)

    assert len(list(log.read("t", 0, 0))) == 10


def a_trim_goes_on_below_and_beyond_what_was_evicted(open_log: OpenLog) -> None:
    log = _filled(open_log)
    log.evict("t", 0, 10)
    log.append_many("t", [Event("k", n) for n in range(10, 14)])

    below = log.trim("t", 0, 4)
    assert (below.removed, below.remaining, below.low) == (4, 10, 4)
    with refused(TrimmedError) as caught:
        list(log.read("t", 0, 3))
    assert caught.value.oldest == 4
    beyond = log.trim("t", 0, 12)

    assert (beyond.removed, beyond.remaining, beyond.low) == (8, 2, 12)
    assert [record.payload for record in log.read("t", 0, 12)] == [12, 13]


def repeats_are_recognised_after_an_eviction(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("t")
    log.append("t", Event("k", 0), producer="p", sequence=7)
    log.append("t", Event("k", 1), idempotency_key="once")
    log.sync("t", 0)

    log.evict("t", 0, 2)

    assert log.append("t", Event("k", 0), producer="p", sequence=7).offset == 0
    assert log.append("t", Event("k", 1), idempotency_key="once").is_repeat
    assert log.append("t", Event("k", 2)).offset == 2


def retention_leaves_what_was_evicted_alone(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("t", retention_bytes=10_000, retention_age_s=3600)
    log.append_many("t", [Event("k", n) for n in range(10)])
    log.sync("t", 0)
    log.evict("t", 0, 10)

    reports = log.apply_retention("t")

    assert [report.removed for report in reports] == [0]
    assert log.marks("t", 0).low == 0


def a_proof_goes_on_after_an_eviction(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("t", proof=True)
    log.append_many("t", [Event("k", n) for n in range(10)])
    log.sync("t", 0)
    kept = log.proof_head("t", 0)

    log.evict("t", 0, 10)

    assert log.proof_head("t", 0) == kept
    (report,) = log.verify("t", expected=[kept])
    assert (report.start, report.records, report.is_sound, report.head) == (10, 0, True, kept)
    log.append("t", Event("k", 10))
    log.append("t", Event("k", 11))
    later = log.proof_head("t", 0)
    (report,) = log.verify("t", expected=[kept, later])
    assert (report.start, report.records, report.is_sound, report.head) == (10, 2, True, later)
    log.trim("t", 0, 4)
    (report,) = log.verify("t", expected=[kept, later])
    assert report.is_sound, report.findings
    log.trim("t", 0, 11)
    (report,) = log.verify("t", expected=[later])
    assert (report.start, report.is_sound, report.head) == (11, True, later)


def _filled(open_log: OpenLog) -> Log:
    log = open_log()
    log.create_topic("t")
    log.append_many("t", [Event("k", n) for n in range(10)])
    log.sync("t", 0)
    return log
