"""The parts that a log consists of: for the rooms above it, not for users."""

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from strandline.clock import Clock, SystemClock
from strandline.log.broker import Broker
from strandline.log.metrics import LogCounts
from strandline.log.quotas import Quotas
from strandline.log.sources import check_has_no_holes
from strandline.log.store import Store, StoreTier
from strandline.values import InvalidError, Mode, Topic, TopicSettings

if TYPE_CHECKING:
    from strandline.log.follower import PartitionFollower
    from strandline.log.log import Log
    from strandline.log.tracing import Tracing


class LogParts(NamedTuple):
    """The parts of one log."""

    store: Store[Any]
    """The store that keeps its bytes; with a tier, the tier's store over it."""
    tier: StoreTier | None
    broker: Broker | None
    clock: Clock
    tracing: "Tracing | None"


def put_together(
    store: Store[Any],
    tier: StoreTier | None,
    broker: Broker | None,
    clock: Clock | None,
    tracing: "Tracing | None",
) -> LogParts:
    """Return the parts, the tier over the store; InvalidError for a URL in place of a store."""
    if isinstance(store, str | os.PathLike):
        raise InvalidError("Log takes a store, open a URL with strandline.open", url=str(store))
    clock = clock if clock is not None else SystemClock()
    return LogParts(
        store if tier is None else tier.over(store, clock), tier, broker, clock, tracing
    )


def check_log(log: object) -> None:
    """Raise InvalidError for the URL of a log in place of the log."""
    if isinstance(log, str | os.PathLike):
        raise InvalidError("pass a log that is open, strandline.open returns one", log=str(log))


def check_blocking(log: object) -> None:
    """Raise InvalidError unless it is a blocking log; the async face of one is not."""
    check_log(log)
    if not hasattr(log, "blocking"):
        return
    raise InvalidError(
        "this call needs the blocking log: pass log.blocking; on a running loop, make the call"
        " with asyncio.to_thread",
        type=type(log).__name__,
    )


def unsendable(url: str) -> InvalidError:
    """Return the error for pickling a log to send it to another process."""
    return InvalidError("a log cannot be pickled, pass its URL and open it there", url=url)


def count_partitions(log: "Log", topic: Topic) -> int:
    """Return how many partitions a topic has now; 0 if it was dropped. Cheap."""
    found = parts_of(log).store.find_topic(topic.tenant, topic.name, fresh=True)
    return 0 if found is None or found.topic.id != topic.id else found.settings.partitions


def current_settings(log: "Log", topic: Topic) -> TopicSettings:
    """Return a topic's settings; InvalidError if it was dropped. Cheap."""
    return log._access.find(topic, fresh=True).settings  # noqa: SLF001 - For rooms above.


def has_holes(log: "Log", topic: Topic) -> bool:
    """Whether a topic may have gaps in its offsets: other programs write it. See design 0131."""
    found = parts_of(log).store.find_topic_id(topic.id)
    return found is not None and found.settings.source is not None


def check_dense(log: "Log", topic: Topic, what: str) -> None:
    """Raise InvalidError if `what` needs a record at each offset, and the topic may have gaps."""
    found = parts_of(log).store.find_topic_id(topic.id)
    if found is not None:
        check_has_no_holes(found, what)


def check_may_consume(log: "Log") -> None:
    """Raise InvalidError unless the log's mode allows to move cursors."""
    log._access.check_mode(Mode.CONSUME)  # noqa: SLF001 - For rooms above, as the parts.


def counts_of(log: "Log") -> LogCounts:
    """Return the counters behind a log's metrics."""
    return log._counts  # noqa: SLF001 - For rooms above, as the parts.


def quotas_of(log: "Log") -> Quotas:
    """Return the log's quota checks."""
    return log._quotas  # noqa: SLF001 - For rooms above, as the parts.


def follower_of(log: "Log", topic: Topic, partition: int, start: int) -> "PartitionFollower | None":
    """Return a follower of the records from `start` on; None if the store has none."""
    find = getattr(log._parts.store, "follower", None)  # noqa: SLF001 - For rooms above.
    found: PartitionFollower | None = None
    if find is not None:
        found = find(*log._access.partition(topic, partition), start)  # noqa: SLF001 - As above.
    return found


def parts_of(log: "Log") -> LogParts:
    """Return the parts of a log."""
    return log._parts  # noqa: SLF001 - For rooms above; the parts are no public attribute.
