"""Everything is closed, whatever one of them raises, and an error with a shared cause ends."""

import contextlib
from pathlib import Path

import pytest

import strandline as sl
from strandline.io import SystemIo
from strandline.stores.closing import close_each
from strandline.testing.faulty_io import FaultyIo
from strandline.values import UnavailableError
from tests.logs import file_log, sqlite_log


def test_each_is_closed_and_the_last_error_is_raised() -> None:
    closed: list[int] = []

    def close(number: int) -> None:
        closed.append(number)
        if number:
            raise OSError(number)

    with pytest.raises(OSError, match="1"):
        close_each([lambda: close(0), lambda: close(1), lambda: close(2)])

    assert closed == [2, 1, 0]


@pytest.mark.timeout(60)
def test_errors_that_have_one_cause_come_to_an_end() -> None:
    cause = OSError("the disk is gone")

    def close() -> None:
        try:
            raise cause
        except OSError as error:
            raise UnavailableError("it cannot be closed") from error

    def close_two() -> None:
        close_each([close, close])

    def close_after_an_error() -> None:
        try:
            raise ValueError("the block has failed")
        finally:
            close_each([close_two])

    with pytest.raises(UnavailableError) as caught:
        close_after_an_error()

    assert caught.value.__cause__ is cause


@pytest.mark.timeout(60)
@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_a_log_is_closed_where_every_call_fails_with_the_same_error(
    scheme: str, tmp_path: Path
) -> None:
    io = FaultyIo(SystemIo())
    opened = {"file": file_log, "sqlite": sqlite_log}[scheme]

    def fail() -> None:
        with opened(str(tmp_path / "log"), io=io) as log:
            for name in ("a", "b"):
                log.create_topic(name, partitions=2)
                for partition in range(2):
                    log.append(name, sl.Event("before"), partition=partition)
            io.fail(1, RuntimeError("the same each time"), forever=True)
            raise ValueError("the block has failed")

    with contextlib.suppress(RuntimeError, ValueError, sl.StrandlineError):
        fail()
    io.clear_faults()

    with opened(str(tmp_path / "log")) as again:
        assert next(record.kind for record in again.read("a", 0, 0)) == "before"
