"""Listing subscriptions with the broker of a log."""

import os
from collections.abc import Callable, Iterable

from strandline.log import LiveSubscription, Log, Watch, parts_of
from strandline.log.broker import tolerated
from strandline.values import Tenant, Topic


def attached(
    log: Log, topics: Iterable[Topic], watch: Watch, *, name: str | None, tenant: str | None
) -> Callable[[], None]:
    """Attach a reader that waits in `watch` to the log's broker; return what ends both."""
    broker = parts_of(log).broker
    if broker is None:
        return watch.close
    ends: list[Callable[[], None]] = []
    for topic in topics:
        whose = topic.tenant if tenant is None else Tenant(tenant)
        with tolerated("a subscription is not listed, nor woken by others"):
            live = LiveSubscription(topic, name, whose, os.getpid())
            ends.append(broker.attach(live, watch.wake))

    def end() -> None:
        watch.close()
        for each in ends:
            with tolerated("a subscription may still be listed"):
                each()

    return end
