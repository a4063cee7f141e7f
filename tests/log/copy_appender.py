"""A process that appends events in order to two partitions until it is stopped."""

import sys

import strandline as sl


def main(url: str) -> None:
    with sl.open(url) as log:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        number = 0
        while True:
            for partition in (0, 1):
                log.append("orders", sl.Event("numbered", number), partition=partition)
            number += 1
            if number % 50 == 0:
                log.append_many("orders", [sl.Event("run", n) for n in range(100)], partition=1)
                log.ack("orders", "mailer", 0, number)


if __name__ == "__main__":
    main(sys.argv[1])
