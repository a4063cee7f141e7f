"""The outcome of an append follows from the records before it."""

from collections.abc import Iterator

import pytest

from strandline.durable_streams import AppendMark, ProducerMark, WriterDecision
from strandline.durable_streams import writers as writers_module
from strandline.durable_streams.writers import WriterState, mark_key, marked_event
from strandline.log import Log
from strandline.values import InvalidError, Topic
from tests.logs import memory_log


@pytest.fixture
def log() -> Iterator[Log]:
    log = memory_log()
    log.create_topic("bytes", value_kind="bytes")
    log.create_topic("events")
    yield log
    log.close()


def by(name: str, epoch: int, seq: int) -> AppendMark:
    return AppendMark(ProducerMark(name, epoch, seq))


def put(log: Log, mark: AppendMark, value: bytes = b"x") -> None:
    log.append("bytes", value, key=mark_key(mark))


def state_of(log: Log, topic: str | Topic = "bytes") -> WriterState:
    state = WriterState()
    for record in log.read(topic, 0, 0):
        state.take(record)
    return state


def test_a_producer_continues_one_by_one(log: Log) -> None:
    put(log, by("p", 0, 0))
    put(log, by("p", 0, 1))
    state = state_of(log)

    assert state.decide(by("p", 0, 2)) is WriterDecision.NEW
    assert state.decide(by("p", 0, 1)) is WriterDecision.REPEAT
    assert state.decide(by("p", 0, 0)) is WriterDecision.REPEAT
    assert state.decide(by("p", 0, 3)) is WriterDecision.GAP
    assert state.decide(by("p", 1, 0)) is WriterDecision.NEW
    assert state.decide(by("p", 1, 1)) is WriterDecision.NEW_EPOCH
    assert state.decide(by("q", 0, 0)) is WriterDecision.NEW
    assert state.decide(by("q", 0, 1)) is WriterDecision.GAP


def test_an_earlier_epoch_is_fenced_also_once_the_stream_is_closed(log: Log) -> None:
    put(log, by("p", 0, 0))
    put(log, by("p", 3, 0))
    assert state_of(log).decide(by("p", 0, 1)) is WriterDecision.FENCED

    put(log, AppendMark(ProducerMark("p", 3, 1), closes=True))
    closed = state_of(log)

    assert closed.decide(by("p", 0, 1)) is WriterDecision.FENCED
    assert closed.decide(by("p", 3, 1)) is WriterDecision.REPEAT
    assert closed.decide(by("p", 3, 2)) is WriterDecision.CLOSED
    assert closed.decide(AppendMark()) is WriterDecision.CLOSED
    assert closed.decide(AppendMark(closes=True, is_empty=True)) is WriterDecision.REPEAT


@pytest.mark.parametrize(("last", "next_", "is_taken"), [("2", "10", False), ("09", "10", True)])
def test_the_sequence_of_a_stream_rises_by_its_bytes(
    log: Log, last: str, next_: str, is_taken: bool
) -> None:
    put(log, AppendMark(stream_seq=last))

    found = state_of(log).decide(AppendMark(stream_seq=next_))

    assert found is (WriterDecision.NEW if is_taken else WriterDecision.SEQ)
    assert state_of(log).decide(AppendMark(stream_seq=last)) is WriterDecision.SEQ


def test_a_close_without_a_message_ends_before_its_record(log: Log) -> None:
    put(log, AppendMark())
    put(log, AppendMark(closes=True, is_empty=True), b"")
    log.append("bytes", b"by another face")
    state = state_of(log)

    assert (state.tail, state.end, state.is_closed) == (1, 3, True)


def test_a_close_with_a_message_ends_after_it(log: Log) -> None:
    log.append("events", marked_event(b"1", AppendMark(closes=True)))
    state = state_of(log, "events")

    assert (state.tail, state.is_closed) == (1, True)


def test_records_of_other_faces_are_messages_without_a_writer(log: Log) -> None:
    log.append("bytes", b"a", key="mine")
    log.append("bytes", b"b", key="__strandline.stream {")
    state = state_of(log)

    assert (state.tail, state.is_closed, state.producers) == (2, False, {})


def test_the_producer_that_was_silent_longest_is_forgotten(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers_module, "PRODUCERS_MAX", 2)
    for name in ("a", "b", "a", "c"):
        put(log, by(name, 0, 0))

    assert list(state_of(log).producers) == ["a", "c"]


@pytest.mark.parametrize("name", ["", " p", "p\n", "__strandline.p", "p" * 201])
def test_a_producer_has_a_name_as_everywhere(name: str) -> None:
    with pytest.raises(InvalidError):
        by(name, 0, 0).check()
