"""Stored positions, and how a lost history is noticed."""

from dataclasses import replace
from uuid import UUID

import pytest

from strandline.values import (
    DivergedError,
    Epoch,
    InvalidError,
    Marks,
    Mode,
    Offset,
    Partition,
    Position,
    TrimmedError,
    check_position,
    epoch_before,
)

A, B, C, OTHER = (UUID(int=number) for number in range(1, 5))
# Records 0 to 9 were written in epoch 1, 10 to 19 in epoch 3, from 20 on in epoch 4.
EPOCHS = (Epoch(1, A, Offset(0)), Epoch(3, B, Offset(10)), Epoch(4, C, Offset(20)))
MARKS = Marks(low=Offset(5), high=Offset(25), durable=Offset(25))


def at(offset: int, epoch: int, epoch_id: UUID) -> Position:
    return Position(UUID(int=8), UUID(int=9), Partition(2), Offset(offset), epoch, epoch_id)


@pytest.mark.parametrize("offset", [5, 9, 10, 11, 20, 21, 25])
def test_a_position_made_in_this_history_is_good(offset: int) -> None:
    epoch = epoch_before(offset, EPOCHS)

    assert check_position(at(offset, epoch.number, epoch.id), EPOCHS, MARKS) == offset


def test_the_epoch_of_a_position_is_that_of_the_record_before_it() -> None:
    found = [epoch_before(offset, EPOCHS).number for offset in (0, 1, 10, 11, 20, 21, 99)]

    assert found == [1, 1, 1, 3, 3, 4, 4]


@pytest.mark.parametrize(
    ("position", "diverged_at"),
    [
        (at(12, 1, A), 10),  # Epoch 1 had gone on to 12 before 10 and 11 were lost.
        (at(12, 2, OTHER), 10),  # Epoch 2 was lost altogether.
        (at(8, 2, OTHER), 8),
        (at(15, 3, OTHER), 10),  # Another epoch 3, in a copy.
        (at(24, 9, OTHER), 24),  # A later epoch than any: an old copy was restored.
        (at(40, 9, OTHER), 25),
    ],
)
def test_a_position_that_passed_lost_records_has_diverged(
    position: Position, diverged_at: int
) -> None:
    with pytest.raises(DivergedError) as caught:
        check_position(position, EPOCHS, MARKS)

    assert caught.value.diverged_at == diverged_at


def test_a_position_outside_the_marks_is_refused() -> None:
    with pytest.raises(TrimmedError) as trimmed:
        check_position(at(4, 1, A), EPOCHS, MARKS)
    with pytest.raises(InvalidError):
        check_position(at(26, 4, C), EPOCHS, MARKS)

    assert trimmed.value.oldest == 5


def test_a_position_is_stored_as_json_and_checked_when_loaded() -> None:
    """WE15: a loaded position is checked like a new one."""
    position = at(12, 3, B)

    assert Position.from_json(position.to_json()) == position
    for bad in (
        b"",
        b"{}",
        b"[1]",
        position.to_json().replace(b'"version":1', b'"version":2'),
        replace(position, offset=Offset(-1)).to_json(),
        position.to_json()[:-1],
    ):
        with pytest.raises(InvalidError):
            Position.from_json(bad)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_mode_is_parsed_from_its_name(mode: Mode) -> None:
    assert Mode.parse(str(mode)) is mode


@pytest.mark.parametrize("value", ["", "Write", "append", None, 1])
def test_anything_else_is_no_mode(value: object) -> None:
    with pytest.raises(InvalidError):
        Mode.parse(value)
