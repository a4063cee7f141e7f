"""No crash breaks the chain of a topic with a proof."""

import random
from collections.abc import Iterator

import pytest

from strandline.stores.files import proving, sealing
from strandline.testing import FakeClock
from strandline.values import Durability, Event
from tests.log.files.crashes import PATH, SEGMENT_BYTES, START_US, TickingClock, open_log
from tests.logs import file_log
from tests.model.crash_images import Image, crash_points
from tests.model.disk import Disk
from tests.planting import Bug

pytestmark = pytest.mark.slow

IMAGES_PER_POINT = 3

BUGS = [
    Bug(
        "an end that was found has the chain of the beginning",
        proving,
        "value_found",
        "value_before(...)",
        "files.place.chain.origin",
    ),
    Bug(
        "a trim keeps the anchor of the frame",
        proving,
        "value_before",
        "entries_of(...)[start - _ : offset - _]",
        "()",
    ),
    Bug(
        "sealing keeps the chain of the first frame of a run",
        sealing,
        "_runs",
        "value_after(...)",
        "value or _",
    ),
]


def event(number: int) -> Event:
    return Event("counted", {"n": number}, key=f"key-{number % 3}")


def eventful() -> tuple[Disk, int]:
    """Return a disk on which a log with a proof went through a little of everything.

    And how long its journal was when there was the topic.
    """
    disk = Disk()
    log = open_log(disk)
    log.create_topic("orders", proof=True)
    start = len(disk.journal)
    for number in range(6):
        log.append("orders", event(number))
    log.append_many("orders", [event(number) for number in range(70)])
    log.append("orders", event(0), durability=Durability.DURABLE)
    log.trim("orders", 0, 40)
    log.append_many("orders", [event(number) for number in range(60)])
    log.seal("orders")
    log.append("orders", event(1))
    log.trim("orders", 0, 100)
    log.append_many("orders", [event(number) for number in range(5)])
    return disk, start


def findings(image: Image) -> list[object]:
    """Return what is wrong after a crash: before the next append, and after it."""
    found: list[object] = []
    disk = image.disk()
    with file_log(PATH, io=disk, clock=FakeClock(now_us=START_US), mode="read") as log:
        (report,) = log.verify("orders")
        found += report.findings
    with file_log(
        PATH,
        io=disk,
        clock=TickingClock(now_us=START_US, seed=image.age),
        segment_bytes=SEGMENT_BYTES,
    ) as log:
        log.append("orders", event(7))
        heads = [log.proof_head("orders", 0), *([] if report.head is None else [report.head])]
        found += log.verify("orders", expected=heads)[0].findings
    return found


def broken_images(seed: int) -> Iterator[object]:
    """Yield whether something is wrong with each image."""
    chance = random.Random(seed)
    disk, start = eventful()
    for point in crash_points(disk, start=start):
        state = point.state
        for image in (state.after_kill(), *state.images(IMAGES_PER_POINT, chance)):
            yield findings(image)


def test_after_any_crash_the_chain_is_whole_and_continues() -> None:
    images = list(broken_images(seed=1))

    assert len(images) > 100
    assert not any(images)


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_crashes_show_a_planted_bug(bug: Bug) -> None:
    with bug.planted():
        assert any(broken_images(seed=1))
