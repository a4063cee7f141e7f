"""Descriptions of a log and its topics, for people to read."""

from typing import TYPE_CHECKING

from strandline.log.access import Access
from strandline.log.retention_worker import load_status
from strandline.log.store import Store, StoredTopic, still_there
from strandline.values import ClosedError, InvalidError, LogDescription, Marks, TopicDescription
from strandline.values.html import ROWS_MAX, html_fields, html_table

if TYPE_CHECKING:
    from strandline.log.log import Log


def describe_log(store: Store[StoredTopic], access: Access, queue_depth: int) -> LogDescription:
    """Describe a log. Contains nothing about any one tenant."""
    store.check_open()

    def look(listed: StoredTopic) -> tuple[Marks, ...]:
        return _marks(access, access.find(listed.topic, fresh=True))

    topics = list(still_there(store.topics(), look))
    marks = [each for topic in topics for each in topic]
    return LogDescription(
        log_id=store.id,
        backend=store.url.partition(":")[0],
        location=store.url,
        mode=store.mode,
        durability_max=store.capabilities.durability_max,
        durability_reason=store.capabilities.durability_reason,
        topics=len(topics),
        partitions=len(marks),
        records=sum(each.high - each.low for each in marks),
        size_bytes=store.size_bytes(),
        queue_depth=queue_depth,
        core=store.capabilities.core,
    )


def describe_topic(
    store: Store[StoredTopic], access: Access, topic: StoredTopic
) -> TopicDescription:
    """Describe a topic."""
    marks = _marks(access, topic)
    segments = [each for number in range(len(marks)) for each in store.segments(topic, number)]
    return TopicDescription(
        topic.topic,
        topic.settings,
        topic.created_at_us,
        marks,
        sum(each.size_bytes for each in segments),
        load_status(store, topic),
    )


def _marks(access: Access, topic: StoredTopic) -> tuple[Marks, ...]:
    """Return where partitions begin and end; nothing if the topic's source is gone."""
    try:
        return tuple(state.marks for state in access.states(topic))
    except InvalidError:
        if topic.settings.source is None:
            raise
        return ()


def log_html(log: "Log") -> str:
    """Return its topics as a table."""
    try:
        found = log.describe()
        topics = log.topics()
        rows = [
            (each.topic.name, str(each.settings.value_kind), len(each.marks), each.records)
            for each in still_there(topics[:ROWS_MAX], log.describe_topic)
        ]
    except ClosedError:
        return html_fields("Log", {"state": "closed"})
    header = ("topic", "kind", "partitions", "records")
    title = f"Log {found.location}, {found.mode}"
    return html_table(title, header, rows, count=len(topics))
