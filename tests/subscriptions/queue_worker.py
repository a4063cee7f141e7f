"""A member of a work queue that is killed at any moment: notes what it begins and has acked."""

import os
import sys

import strandline as sl


def main(url: str, notes: str) -> None:
    """Work until the queue is empty for a while."""
    fd = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with sl.open(url, mode="consume") as log:
        member = log.consumer("jobs", "workers", shared=True, visibility_s=1, deliveries_max=1000)
        while (found := member.fetch(3, timeout_s=1.5)) or sum(member.lag().values()):
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
