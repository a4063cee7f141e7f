"""Erases the records of one key: finds the topics, and checks that it can be done."""

from collections.abc import Iterator
from typing import cast

from strandline.log.access import Access
from strandline.log.results import TopicName
from strandline.log.store import ErasingStore, Store, StoredTopic
from strandline.log.topics import is_internal_name
from strandline.values import InvalidError, Mode, ValueKind
from strandline.values.arguments import check_flag
from strandline.values.erasure import ErasureReport, TopicErasure
from strandline.values.internal_topics import DEAD_LETTERS_PREFIX, REDRIVEN_PREFIX
from strandline.values.names import check_text


def erase(
    store: Store[StoredTopic], access: Access, topic: TopicName, key: str, *, dry_run: bool
) -> ErasureReport:
    """Erase the records of a key; see Log.erase."""
    key = check_text(key, "key")
    dry_run = check_flag("dry_run", dry_run)
    access.check_mode(Mode.WRITE)
    found = access.find(topic, fresh=True)
    if is_internal_name(found.topic.name):
        raise InvalidError(
            "give the topic itself: its dead letters are erased with it", topic=found.topic.name
        )
    if not store.capabilities.has_erasure:
        raise InvalidError(
            "records cannot be erased in this store, open the log where it is stored, or copy it"
            " to a file: or sqlite: log and erase there",
            location=store.url,
        )
    if found.settings.value_kind is ValueKind.BATCH:
        raise InvalidError(
            "batches cannot be erased by key, trim the topic or write it again without them",
            topic=found.topic.name,
        )
    erasing = cast("ErasingStore[StoredTopic]", store)
    topics, is_released = [], True
    for each in _concerned(store, found):
        counts = []
        for number in range(each.settings.partitions):
            done = erasing.erase(each, number, key, dry_run=dry_run)
            counts.append(done.records)
            is_released = is_released and done.is_released
        topics.append(TopicErasure(each.topic.name, tuple(counts)))
    return ErasureReport(tuple(topics), dry_run, is_released)


def _concerned(store: Store[StoredTopic], topic: StoredTopic) -> Iterator[StoredTopic]:
    yield topic
    for prefix in (DEAD_LETTERS_PREFIX, REDRIVEN_PREFIX):
        found = store.find_topic(topic.topic.tenant, f"{prefix}{topic.topic.name}", fresh=True)
        if found is not None:
            yield found
