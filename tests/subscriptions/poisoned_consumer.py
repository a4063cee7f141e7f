"""A process that consumes orders and is killed while it handles the poison record."""

import os
import signal
import sys

import strandline as sl
from strandline.values import Mode

POISON = 2


def main(url: str, mode: Mode, deliveries_max: int) -> None:
    with (
        sl.open(url, mode=mode) as log,
        log.consumer("orders", "billing", deliveries_max=deliveries_max) as billing,
    ):
        while (delivery := billing.next(0.0)) is not None:
            sys.stdout.write(f"{delivery.record.offset} {delivery.count}\n")
            sys.stdout.flush()
            if delivery.record.payload == POISON:
                os.kill(os.getpid(), signal.SIGKILL)
            billing.ack(delivery.record)


if __name__ == "__main__":
    main(sys.argv[1], Mode.parse(sys.argv[2]), int(sys.argv[3]))
