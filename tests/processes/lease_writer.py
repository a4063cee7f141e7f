"""One process that appends to a log which others write to as well.

lease_writer.py URL NAME COUNT [WORD …]

Appends COUNT events and prints the number after the last, and of each whether it is unknown;
with COUNT 0, until its input ends. Words: `waits` continues without appending until its input
ends, and `never-asks` leaves out to ask for the lock, as versions before design 0121 do.
"""

import itertools
import sys
import threading

import strandline as sl
from strandline.stores.files.partition_lock import PartitionLock


def main(url: str, name: str, count: str, *words: str) -> None:
    if "never-asks" in words:
        PartitionLock._ask = never_ask  # type: ignore[method-assign] # noqa: SLF001
    stopping = threading.Event()
    if not int(count) or "waits" in words:
        threading.Thread(target=read_input, args=[stopping]).start()
    with sl.open(url) as log:
        for number in range(int(count)) if int(count) else itertools.count():
            if not int(count) and stopping.is_set():
                break
            append(log, name, number)
            if number == 100:
                sys.stdout.write("begun\n")
                sys.stdout.flush()
        if "waits" in words:
            stopping.wait()
    sys.stdout.write(f"end {number}\n")


def read_input(stopping: threading.Event) -> None:
    sys.stdin.read()
    stopping.set()


def never_ask(self: PartitionLock, tail: object) -> None:
    pass


def append(log: sl.Log, name: str, number: int) -> None:
    while True:
        try:
            log.append("t", sl.Event(name, number))
        except sl.UnavailableError:
            continue
        except sl.UnknownError:
            sys.stdout.write(f"unknown {number}\n")
        return


if __name__ == "__main__":
    main(*sys.argv[1:])
