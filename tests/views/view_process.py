"""A process with a view that is killed, during an operation of its snapshot or by a signal.

Usage: view_process.py <log> <snapshot> <nth>. Publishes, saves once, publishes again, and
kills itself before the nth file operation of the second save; with 0, before that save;
with -1 it publishes and saves for ever.
"""

import itertools
import os
import signal
import sys

import strandline as sl
from strandline.io import SystemIo
from strandline.testing import FaultyIo
from tests.views.accounts import Accounts, moved

NAMES = ("ann", "bob", "eve")


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(path: str, snapshot: str, nth: int) -> None:
    io = FaultyIo(SystemIo())
    log = sl.open(f"sqlite:{path}")
    interval_s = 0.005 if nth < 0 else 3_600.0
    view = sl.LiveView(
        log, "accounts", Accounts(), snapshot=snapshot, snapshot_interval_s=interval_s, io=io
    )
    view.reconcile([0, 1])
    for number in itertools.count():
        published = view.publish(moved(NAMES[number % 3], number))
        print(published.receipt.partition, published.receipt.offset, flush=True)  # noqa: T201 - Its report.
        if nth >= 0 and number == 9:
            view.save()
        if nth >= 0 and number == 19:
            if nth == 0:
                die()
            io.before(nth, die)
            view.save()
            print("saved", flush=True)  # noqa: T201 - As above.
            die()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
