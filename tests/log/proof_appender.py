"""Appends an event, or several at once, for each line on standard input, and says where.

A line is how many. Ends, or is killed, whenever its parent likes.
"""

import sys

import strandline as sl


def main(url: str) -> None:
    with sl.open(url) as log:
        for line in sys.stdin:
            count = int(line)
            events = [sl.Event("counted", {"n": number}) for number in range(count)]
            receipts = log.append_many("orders", events, timeout_s=60)
            print(receipts[-1].offset, flush=True)  # noqa: T201 - This is how it answers.


if __name__ == "__main__":
    main(sys.argv[1])
