"""Fills the disk that a log is on, and continues as a service would. Run on a small mount."""

import contextlib
import sys

import strandline as sl


def say(step: str) -> None:
    sys.stdout.write(f"{step}\n")
    sys.stdout.flush()


def fill(log: sl.Log) -> int:
    """Append until the disk is full; return how many records there are."""
    end = 0
    while True:
        try:
            end = log.append("orders", sl.Event("order", {"text": "x" * 3000})).offset + 1
        except sl.FullError:
            return end


def main(url: str) -> None:
    with sl.open(url, retention=False) as log:
        log.create_topic("orders")
        log.create_topic("others")
        log.append("orders", sl.Event("order", {"id": 0}))
        log.register("orders", "mailer", {0: 0})
        end = fill(log)
        assert log.marks("orders", 0).high == end

        for number in range(1, 101):
            with contextlib.suppress(sl.FullError):
                end = log.append("orders", sl.Event("order", {"text": "x" * 3000})).offset + 1
            assert log.ack("orders", "mailer", 0, number) == number
        with log.consumer("orders", "packer") as consumer:
            consumer.ack(next(consumer))
        assert log.cursor("orders", "packer", 0) == 1
        say("acked")

        with contextlib.suppress(sl.FullError):
            while True:
                log.append("others", sl.Event("other", {"text": "y" * 3000}))
        report = log.trim("orders", 0, end, force=True)
        assert (report.removed, report.is_released) == (end, True)
        assert log.append("orders", sl.Event("order", {"id": 1})).offset == end
        say("trimmed")

        end = fill(log)
        log.drop_topic("others")
        log.drop_topic("orders")
        log.create_topic("orders")
        assert log.append("orders", sl.Event("order", {"id": 2})).offset == 0
        assert log.append("orders", sl.Event("order", {"id": 3}), durability="durable").offset == 1
    with sl.open(url) as log:
        assert [record.payload["id"] for record in log.read("orders", 0, 0)] == [2, 3]
        assert not any(report.findings for report in log.verify("orders"))
    say("dropped")


if __name__ == "__main__":
    main(sys.argv[1])
