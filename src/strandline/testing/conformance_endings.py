"""Rules about closing. Every public function is a rule."""

from collections.abc import Callable

from strandline.testing.conformance_checks import (
    OpenLog,
    event,
    fill,
    refused,
    together,
)
from strandline.values import ClosedError, ValueKind


def after_close_every_call_is_refused(open_log: OpenLog) -> None:
    """WA7."""
    log = open_log()
    topic = log.create_topic("orders")
    fill(log, "orders", 3)
    position = log.position("orders", 0, 1)

    log.close()
    log.close()

    calls: tuple[Callable[[], object], ...] = (
        lambda: log.create_topic("orders"),
        lambda: log.create_topic("new", value_kind=ValueKind.BYTES),
        lambda: log.topic("orders"),
        log.topics,
        lambda: log.describe_topic("orders"),
        lambda: log.change_retention("orders", retention_age_s=1, retention_bytes=None),
        lambda: log.drop_topic(topic),
        lambda: log.append("orders", event(0)),
        lambda: log.append_many("orders", [event(0)]),
        lambda: log.append_many("orders", []),
        lambda: log.trim("orders", 0, 1),
        lambda: log.apply_retention("orders"),
        lambda: log.read("orders", 0, 0),
        lambda: log.read_batches("orders", 0, 0),
        lambda: log.marks("orders", 0),
        lambda: log.offset_at("orders", 0, 0),
        lambda: log.epochs("orders", 0),
        lambda: log.segments("orders", 0),
        lambda: log.position("orders", 0, 0),
        lambda: log.resolve(position),
        lambda: log.proof_head("orders", 0),
        lambda: log.verify("orders"),
        log.watch,
        lambda: log.ack("orders", "billing", 0, 1),
        lambda: log.seek("orders", "billing", 0, 1),
        lambda: log.cursor("orders", "billing", 0),
        lambda: log.consumers("orders"),
        lambda: log.delete_consumer("orders", "billing"),
        lambda: log.sync("orders", 0),
        log.flush,
        log.describe,
    )
    for call in calls:
        with refused(ClosedError):
            call()


def a_log_closes_at_the_end_of_its_block(open_log: OpenLog) -> None:
    with open_log() as log:
        log.create_topic("orders")

    with refused(ClosedError):
        log.topics()


def an_append_that_races_a_close_is_whole_or_refused(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")

    def produce() -> int:
        appended = 0
        try:
            while appended < 100_000:
                log.append("orders", event(appended))
                appended += 1
        except ClosedError:
            pass
        return appended

    def close() -> int:
        log.close()
        return 0

    together([produce, produce, close])

    with refused(ClosedError):
        log.append("orders", event(0))
