"""The error tree: fields, messages, and travelling between processes."""

import copy
import pickle
import sqlite3

import pytest

from strandline.values import (
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

EVERY_ERROR = [
    InvalidError("fix the call", name="x"),
    DroppedError("this topic was dropped", topic="orders"),
    RejectedError(7, ValueError("no")),
    ConflictError("another writer was first, read again", expected=3, actual=4),
    UnavailableError("busy, try again later", write={"id": 1}, pid=12),
    NotReadyError(3, topic="orders"),
    FullError("/log", "No space left on device", write={"id": 1}),
    QuotaError("bytes_per_s", 12, 10, tenant="acme", retry_after_s=0.2),
    QuotaError("topics", 3, 3, tenant="acme"),
    TrimmedError(4, start=0),
    DivergedError(9, partition=1),
    LeaseLostError(1, generation=3),
    ClosedError("this log is closed, open it again"),
    FailedError(OSError(5, "Input/output error")),
    UnknownError(OSError(28, "No space left on device")),
    CorruptError("bad checksum", file="0.seg", position=64),
]


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_error_survives_pickling(error: StrandlineError, protocol: int) -> None:
    returned = pickle.loads(pickle.dumps(error, protocol))

    assert type(returned) is type(error)
    assert str(returned) == str(error)
    assert repr(returned.__cause__) == repr(error.__cause__)
    assert vars(returned) == vars(error)


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
def test_every_error_survives_copying(error: StrandlineError) -> None:
    shallow, deep = copy.copy(error), copy.deepcopy(error)

    assert shallow is not error
    assert shallow.__cause__ is error.__cause__
    assert str(shallow) == str(deep) == str(error)
    assert vars(shallow) == vars(deep) == vars(error)


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
def test_every_message_is_a_lowercase_sentence_with_its_fields_at_the_end(
    error: StrandlineError,
) -> None:
    message = str(error)

    assert message[0].islower()
    assert all(f"{name}=" in message for name in error.fields)
    if error.fields:
        assert "=" in message.rsplit(maxsplit=1)[-1] or message[-1] in "'\""


def test_a_foreign_cause_is_pickled_as_its_text_and_copied_as_itself() -> None:
    error = FailedError(sqlite3.OperationalError("database is locked"))

    pickled = pickle.loads(pickle.dumps(error))
    copied = copy.copy(error)

    assert repr(pickled.cause) == "RuntimeError('OperationalError: database is locked')"
    assert copied.cause is error.cause


def test_a_cause_that_cannot_be_pickled_does_not_hide_the_error() -> None:
    class StubbornError(Exception):
        def __reduce__(self) -> str:
            raise TypeError("not this one")

    returned = pickle.loads(pickle.dumps(RejectedError(1, StubbornError("poison"))))

    assert returned.epoch == 1
    assert "poison" in str(returned.__cause__)


def test_notes_travel_with_the_error() -> None:
    error = ConflictError("read again")
    error.add_note("while importing line 3")

    returned = pickle.loads(pickle.dumps(error))

    assert returned.__notes__ == ["while importing line 3"]


def test_a_failure_keeps_its_cause_when_raised() -> None:
    cause = OSError(5, "Input/output error")

    with pytest.raises(FailedError) as caught:
        raise FailedError(cause)

    assert caught.value.cause is cause
    assert caught.value.__cause__ is cause
    assert "Input/output error" in str(caught.value)


def test_an_unknown_outcome_is_a_failure_of_the_writer() -> None:
    error = UnknownError(OSError(5, "Input/output error"))

    assert isinstance(error, FailedError)
    assert "idempotency key" in str(error)


def test_a_rejected_write_is_an_invalid_call_with_its_epoch() -> None:
    cause = ValueError("negative amount")

    error = RejectedError(41, cause)

    assert isinstance(error, InvalidError)
    assert error.epoch == 41
    assert error.__cause__ is cause


def test_unavailable_hands_the_write_back() -> None:
    write = object()

    error = UnavailableError("the queue is full, try again later", write=write)

    assert error.write is write
    assert UnavailableError("later").write is None


def test_a_diverged_position_is_not_taken_for_a_trimmed_one() -> None:
    error = DivergedError(12)

    assert not isinstance(error, TrimmedError)
    assert error.diverged_at == 12


def test_not_ready_names_its_partition_and_is_retryable() -> None:
    error = NotReadyError(3)

    assert isinstance(error, UnavailableError)
    assert error.partition == 3


def test_hostile_values_are_shown_harmlessly_and_shortened() -> None:
    error = InvalidError("fix the name", name="\x1b[31m\u202e\ud800" + "x" * 5000)

    assert "\x1b" not in str(error)
    assert str(error).isascii()
    assert len(str(error)) < 200


def test_an_empty_list_is_a_field_that_is_not_shown() -> None:
    error = InvalidError("there is no such topic", topic="orders", near=[])

    assert str(error) == "there is no such topic: topic='orders'"
    assert error.fields["near"] == []
