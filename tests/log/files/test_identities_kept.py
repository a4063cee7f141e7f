"""Snapshots of identities that know of more than what is left in the end."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline.io import SystemIo
from strandline.log import Log
from strandline.testing import FaultyIo
from strandline.values import Durability, Event, StrandlineError
from tests.log.files.crashes import open_log
from tests.logs import file_log
from tests.model.crash_images import crash_points
from tests.model.disk import Disk

FIRST = Event("order", {"n": 0})


@pytest.mark.slow
def test_a_loss_of_power_takes_no_identity_of_what_it_leaves() -> None:
    disk = Disk()
    with open_log(disk) as log:
        log.create_topic("orders")
        log.append("orders", FIRST, idempotency_key="first", durability=Durability.DURABLE)
        log.seal("orders")
        log.append("orders", Event("order", {"n": 1}), idempotency_key="second")
        start = len(disk.journal)
        log.trim("orders", 0, 1)
        lost = 0
        for point in crash_points(disk, start=start):
            for image in point.state.images(4, random.Random(0)):
                with open_log(image.disk()) as again:
                    lost += again.marks("orders", 0).high == 1
                    assert again.append("orders", FIRST, idempotency_key="first").offset == 0
    assert lost


@pytest.mark.slow
def test_what_a_crash_left_of_the_first_identity_stops_no_later_one() -> None:
    disk = Disk()
    with open_log(disk) as log:
        log.create_topic("orders")
        log.append("orders", FIRST, durability=Durability.DURABLE)
        start = len(disk.journal)
        log.append("orders", FIRST, idempotency_key="first")
        for point in crash_points(disk, start=start):
            for image in point.state.images(4, random.Random(0)):
                with open_log(image.disk()) as again:
                    again.append("orders", FIRST)
                    again.seal("orders")
                    again.append("orders", FIRST)
                    again.trim("orders", 0, again.marks("orders", 0).high - 1)

                    second = again.append("orders", FIRST, idempotency_key="second")

                    repeat = again.append("orders", FIRST, idempotency_key="second")
                    assert repeat.is_repeat
                    assert repeat.offset == second.offset


@pytest.mark.slow
def test_a_fenced_writer_takes_no_identity_with_it(tmp_path: Path) -> None:
    """Whatever it was doing, and at whichever call the other one came."""
    for nth in range(1, 500):
        path = str(tmp_path / str(nth))
        io = FaultyIo(SystemIo())
        with (
            file_log(path, io=io) as log,
            file_log(path, lock_timeout_s=0.001, take_over=True) as by,
        ):
            log.create_topic("orders")
            log.append("orders", FIRST, idempotency_key="first")
            log.seal("orders")
            log.append("orders", Event("order", {"n": 1}))
            planned = io.before(nth, _taking_over(by))
            try:
                log.seal("orders")
            except StrandlineError:
                assert planned.fired
            io.clear_faults()
        with file_log(path) as again:
            assert again.append("orders", FIRST, idempotency_key="first").offset == 0, nth
        if not planned.fired:
            return
    pytest.fail("sealing never came to its end")


def _taking_over(log: Log) -> Callable[[object], None]:
    def take_over(_: object) -> None:
        for number in range(3):
            log.append("orders", Event("order", {"n": 2 + number}), idempotency_key=f"{number}")

    return take_over
