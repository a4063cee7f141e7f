"""A process that appends to a SQLite log until it gets the order to stop, or is killed.

Prints each offset once it is acknowledged, with the number that it holds.
"""

import sys

from strandline.values import Durability, Event
from tests.logs import sqlite_log


def main(path: str, name: str, count: int, level: str) -> None:
    durability = Durability.parse(level)
    with sqlite_log(path) as log:
        print("open", flush=True)  # noqa: T201 - Its output is its report.
        for number in range(count):
            event = Event(name, {"n": number})
            receipt = log.append("orders", event, durability=durability, timeout_s=60)
            print(number, receipt.offset, flush=True)  # noqa: T201 - As above.


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
