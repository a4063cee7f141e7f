"""A member of a work queue that is killed at any moment: notes what it begins and has acked."""

import os
import sys
from pathlib import Path

import strandline as sl


def main(url: str, notes: str, no_more: str) -> None:
    """Work until the file `no_more` says that nothing is added, and the queue is empty."""
    fd = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with sl.open(url, mode="consume") as log:
        member = log.consumer("jobs", "workers", shared=True, visibility_s=1, deliveries_max=1000)
        while not Path(no_more).exists() or any(member.lag().values()):
            found = member.fetch(3, timeout_s=0.5)
            for delivery in found:
                os.write(fd, b"begin %d\n" % delivery.record.payload["n"])
            for delivery in reversed(found):
                try:
                    member.ack(delivery)
                except sl.ConflictError:
                    os.write(fd, b"lost %d\n" % delivery.record.payload["n"])
                else:
                    os.write(fd, b"acked %d\n" % delivery.record.payload["n"])
        member.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
