"""Rules of the proof of history."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from strandline.log import Kept, Log, Piece
from strandline.testing.conformance_checks import OpenLog, event, fill, refused
from strandline.values import (
    ConflictError,
    Event,
    InvalidError,
    Offset,
    ProofHead,
    ProofReport,
    TopicSettings,
    ValueKind,
)

_OFFSET = 5


def a_topic_has_a_proof_only_on_request(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("plain")

    log.create_topic("orders", proof=True)

    assert log.describe_topic("orders").settings == TopicSettings(proof=True)
    assert not log.describe_topic("plain").settings.proof
    assert log.create_topic("orders", proof=True) == log.topic("orders")
    with refused(ConflictError):
        log.create_topic("orders")
    with refused(InvalidError):
        log.proof_head("plain", 0)


def untouched_history_is_sound(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2, proof=True)
    fill(log, "orders", 7)
    log.append_many("orders", [event(n) for n in range(200)], partition=0)

    first, second = log.verify("orders")

    assert (first.partition, first.start, first.end, first.records) == (0, 0, 207, 207)
    assert (second.partition, second.end, second.records) == (1, 0, 0)
    for report in (first, second):
        assert report.is_proved
        assert report.is_sound, report.findings
        assert report.head == log.proof_head("orders", report.partition)
    assert log.verify("orders", 1) == [second]


def records_of_every_kind_are_proved(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("events", proof=True)
    log.create_topic("raw", value_kind=ValueKind.BYTES, proof=True)
    log.create_topic("tables", value_kind=ValueKind.BATCH, proof=True)
    log.append("events", Event("order.created", {"é": None}, key="ü", headers={"a": "b"}))
    log.append("events", event(1), tenant="acme", producer="till", sequence=4)
    log.append("events", event(2), idempotency_key="once")
    log.append_many("raw", [bytes([n % 256]) * n for n in range(100)], tenant="acme")
    log.append("raw", b"", key="")
    log.append("tables", pa.record_batch({"n": [1, 2, 3]}))

    for topic in ("events", "raw", "tables"):
        (report,) = log.verify(topic)
        assert report.is_sound, report.findings
        assert report.head == log.proof_head(topic, 0)


def a_head_that_was_kept_is_confirmed_later(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2, proof=True)
    kept = [log.proof_head("orders", 0)]
    fill(log, "orders", _OFFSET)
    kept.append(ProofHead.from_json(log.proof_head("orders", 0).to_json()))
    log.append_many("orders", [event(n) for n in range(100)], partition=0)
    kept += [log.proof_head("orders", partition) for partition in (0, 1)]

    reports = log.verify("orders", expected=kept)

    assert [head.offset for head in kept] == [0, _OFFSET, _OFFSET + 100, 0]
    assert len({head.digest for head in kept}) == len(kept)
    assert all(report.is_sound for report in reports), reports
    with refused(InvalidError):
        log.verify("orders", 1, expected=kept)


def a_head_that_does_not_agree_is_found(open_log: OpenLog) -> None:
    log, other = open_log(), open_log()
    for each in (log, other):
        each.create_topic("orders", proof=True)
        fill(each, "orders", _OFFSET)
    head = log.proof_head("orders", 0)

    wrong = {
        "digest": replace(head, digest=bytes(32)),
        "earlier": replace(head, offset=Offset(2)),
        "later": replace(head, offset=Offset(_OFFSET + 1)),
        "log": other.proof_head("orders", 0),
    }

    for name, other_head in wrong.items():
        (report,) = log.verify("orders", expected=[head, other_head])
        assert len(report.findings) == 1, name
        assert report.head is None, name
    assert _only(log).is_sound


def a_topic_created_again_has_another_history(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", proof=True)
    fill(log, "orders", _OFFSET)
    head = log.proof_head("orders", 0)

    log.drop_topic("orders")
    log.create_topic("orders", proof=True)
    fill(log, "orders", _OFFSET)

    assert not log.verify("orders", expected=[head])[0].is_sound
    assert _only(log).is_sound


def trimming_keeps_the_proof(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", proof=True)
    fill(log, "orders", 3)
    log.append_many("orders", [event(n) for n in range(100)])
    fill(log, "orders", 2)
    head = log.proof_head("orders", 0)

    for low in (2, 3, 50, 51, 103, 105):
        log.trim("orders", 0, low)
        (report,) = log.verify("orders", expected=[head])
        assert (report.start, report.records) == (low, 105 - low)
        assert report.is_sound, report.findings
        assert report.head == head

    log.append("orders", event(0))
    (report,) = log.verify("orders", expected=[head])
    assert report.is_sound, report.findings
    assert report.records == 1


def a_head_of_what_was_trimmed_is_not_confirmed(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", proof=True)
    fill(log, "orders", 2)
    head = log.proof_head("orders", 0)
    fill(log, "orders", 2)

    log.trim("orders", 0, 2)
    assert log.verify("orders", expected=[head])[0].is_sound

    log.trim("orders", 0, 3)
    (report,) = log.verify("orders", expected=[head])
    assert [finding.offset for finding in report.findings] == [2]
    assert _only(log).is_sound


def a_history_leads_from_any_offset_to_any_other(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", proof=True)
    fill(log, "orders", 3)
    log.append_many("orders", [event(n) for n in range(20)])
    fill(log, "orders", 2)
    log.trim("orders", 0, 1)
    values: dict[int, bytes | None] = {}
    for offset in range(1, 26):
        history = log.history("orders", 0, offset, offset)
        assert (history.low, history.high, list(_entries(history.pieces))) == (offset, offset, [])
        values[offset] = history.anchor
    assert values[25] == log.proof_head("orders", 0).digest

    for start, end in ((1, 25), (2, 3), (4, 9), (3, 23), (10, 24), (24, 25), (0, 99)):
        low, high = max(1, start), min(25, end)
        history = log.history("orders", 0, start, end)
        assert (history.low, history.high, history.anchor) == (low, high, values[low])
        value = history.anchor
        for piece in history.pieces:
            assert isinstance(piece, Piece)
            for entry in piece.entries:
                assert value == values[entry.offset]
                value = history.chain.link_kept(value or b"", entry)
            assert value == piece.value
        assert value == values[high]
    entries = list(_entries(log.history("orders", 0, 4, 9).pieces))
    records = list(log.read("orders", 0, 4, 9))
    assert [(each.offset, each.timestamp_us, each.key) for each in entries] == [
        (each.offset, each.timestamp_us, each.key) for each in records
    ]


def _entries(pieces: Iterable[object]) -> Iterator[Kept]:
    for piece in pieces:
        assert isinstance(piece, Piece)
        yield from piece.entries


def without_a_proof_verify_reports_it(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    fill(log, "orders", _OFFSET)
    log.trim("orders", 0, 1)

    report = _only(log)

    assert (report.start, report.end, report.records) == (1, _OFFSET, _OFFSET - 1)
    assert report.is_sound
    assert not report.is_proved
    assert report.head is None


def _only(log: Log) -> ProofReport:
    (report,) = log.verify("orders")
    return report
