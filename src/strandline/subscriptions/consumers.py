"""Opens the kind of consumer that the options of `log.consumer` ask for."""

from collections.abc import Mapping
from typing import Any, Final

from strandline.log import Log, TopicName
from strandline.subscriptions.consumer import Consumer
from strandline.subscriptions.options import ConsumerOptions, QueueOptions
from strandline.subscriptions.shared_consumer import SharedConsumer
from strandline.values import InvalidError
from strandline.values.arguments import check_options

_OF_GROUPS: Final = {
    "partitions": "its members share the records of all partitions",
    "group": "its members are identified by the consumer's name",
    "on_assignment": "its members hold no partitions",
    "lease_s": "use visibility_s to set how long a member has a delivery",
    "commit_every": "an ack is stored at once, pass many records in one call",
    "commit_every_s": "an ack is stored at once, pass many records in one call",
    "read_ahead": "use the max_records of fetch to set how many are delivered together",
}

_OF_QUEUES: Final = {
    "visibility_s": "use shared=True for a work queue, or lease_s for a group",
    "order": "use shared=True for a work queue; a group keeps the order of each partition",
}


def open_consumer(
    log: Log, topic: TopicName, name: str, *, shared: bool, options: Mapping[str, Any]
) -> Consumer | SharedConsumer:
    """Return a consumer, or a member of a work queue; InvalidError for the other's options."""
    refused, what = (_OF_GROUPS, "a work queue") if shared else (_OF_QUEUES, "a group")
    for option in options:
        if option in refused:
            raise InvalidError(f"{what} takes no {option}: {refused[option]}", consumer=name)
    known = QueueOptions if shared else ConsumerOptions
    check_options("consumer", options, known.__optional_keys__)
    return (SharedConsumer if shared else Consumer)(log, topic, name, **options)
