"""Appends durably and acknowledges on a pipe, for strace: `traced_appends url count bug?`."""

import contextlib
import os
import sys

from strandline.values import Durability, Event
from tests.processes.planted_bugs import planted
from tests.processes.stores import open_store
from tests.processes.workloads import TOPIC


def needle(number: int) -> str:
    """Return text that is in one record only."""
    return f"needle-{number:06d}-eldeen"


def acknowledgement(number: int) -> str:
    """Return what is written on the pipe."""
    return f"durable-{number:06d}."


def main(url: str, count: int, bug: str | None) -> None:
    _, pipe = os.pipe()
    with contextlib.ExitStack() as stack:
        stack.enter_context(planted(bug))
        log = stack.enter_context(open_store(url))
        log.create_topic(TOPIC)
        for number in range(count):
            event = Event("traced", {"text": needle(number)})
            level = Durability.DURABLE if number % 3 else Durability.WRITTEN
            receipt = log.append(TOPIC, event, durability=level)
            receipt.wait(Durability.DURABLE)
            os.write(pipe, acknowledgement(number).encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
