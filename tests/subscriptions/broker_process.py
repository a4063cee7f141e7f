"""A process that subscribes through a broker, and says each offset as it comes.

With "fork", it leaves a child behind that knows of nothing and lives on.
"""

import os
import sys
import time

import strandline as sl


def main(url: str, folder: str, *options: str) -> None:
    broker = sl.MachineBroker(folder)
    with sl.open(url, mode="read", broker=broker) as log:
        subscription = log.subscribe("orders", start=sl.LATEST, consumer="billing", tenant="acme")
        if "fork" in options:
            begun, begins = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(1)
                os.write(begins, b"!")
                time.sleep(600)
                os._exit(0)
            # Until it runs Python, it has what its parent had open.
            os.read(begun, 1)
            print(child, flush=True)  # noqa: T201 - Its output is its report.
        print("ready", flush=True)  # noqa: T201 - As above.
        for record in subscription:
            print(record.offset, flush=True)  # noqa: T201 - As above.


if __name__ == "__main__":
    main(*sys.argv[1:])
