"""One process of a log that processes of two versions share.

    mixed_version.py append URL NAME COUNT OF   append COUNT events, follow until there are OF
    mixed_version.py consume URL COUNT          ack COUNT more records of the consumer `mailer`
    mixed_version.py verify URL                 read and verify everything

Prints what it saw as JSON. It keeps to names that both versions have.
"""

import json
import sys

import strandline as sl


def append(url: str, name: str, count: int, of: int) -> object:
    seen: list[list[object]] = []
    with sl.open(url) as log:
        log.create_topic("orders", partitions=2)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        with log.subscribe("orders") as orders:
            for number in range(count):
                event = sl.Event(name, {"n": number})
                log.append("orders", event, partition=number % 2, producer=name, sequence=number)
            while len(seen) < of:
                record = next(orders)
                seen.append([record.partition, record.offset, record.kind, record.payload["n"]])
    return sorted(seen, key=str)


def consume(url: str, count: int) -> object:
    with sl.open(url) as log, log.consumer("orders", "mailer", partitions=[0]) as mailer:
        acked = []
        for _ in range(count):
            delivery = mailer.next(timeout_s=60)
            assert delivery is not None
            mailer.ack(delivery)
            acked.append([delivery.record.offset, delivery.count])
        return acked


def verify(url: str) -> object:
    with sl.open(url, mode="read") as log:
        return [[each.records, each.is_sound] for each in log.verify("orders")]


def main(word: str, url: str, *arguments: str) -> None:
    numbers = [int(each) if each.isdecimal() else each for each in arguments]
    functions = {"append": append, "consume": consume, "verify": verify}
    answer = functions[word](url, *numbers)  # type: ignore[operator]
    sys.stdout.write(json.dumps({"from": sl.__file__, "answer": answer}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
