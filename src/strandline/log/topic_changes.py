"""Changes of existing topics: limits, partitions, trimming, erasing, dropping."""

from collections.abc import Callable, Sequence
from typing import Final

from strandline.clock import Clock
from strandline.log.access import Access
from strandline.log.appending import Appends
from strandline.log.erasing import erase
from strandline.log.results import TopicName
from strandline.log.retention import Retention
from strandline.log.sources import check_own
from strandline.log.store import Reach, Store, StoredTopic
from strandline.log.topic_lane import ROUTE_CHECK_S
from strandline.log.topics import change_of_limits, is_internal_name
from strandline.values import Limit, Mode, Offset, TopicSettings, TrimReport, check_may_shorten
from strandline.values.arguments import check_flag, check_whole
from strandline.values.erasure import ErasureReport
from strandline.values.payload_schema import encode_payload_schema

ROUTE_DELAY_S: Final = 2 * ROUTE_CHECK_S
"""When appends start to use an added partition, if other processes may write."""


class TopicChanges:
    """Changes settings of topics, and drops them. Any thread may use it."""

    def __init__(
        self,
        store: Store[StoredTopic],
        access: Access,
        appends: Appends,
        retention: Retention,
        clock: Clock,
    ) -> None:
        self._retention = retention
        self._store = store
        self._access = access
        self._appends = appends
        self._clock = clock

    def change_limits(
        self,
        topic: TopicName,
        retention_age_s: Limit,
        retention_bytes: Limit,
        limit_bytes: Limit,
    ) -> StoredTopic:
        """Change the given limits."""
        change = change_of_limits(topic, retention_age_s, retention_bytes, limit_bytes)
        self._access.check_mode(Mode.WRITE)
        return self._change(self._access.find(topic), change)

    def add_partitions(self, topic: TopicName, partitions: int) -> StoredTopic:
        """Raise the number of partitions to `partitions`."""
        wanted = check_whole("partitions", partitions)
        found = self._access.find(topic)
        self._access.check_mode(Mode.CONSUME if is_internal_name(found.topic.name) else Mode.WRITE)
        is_alone = self._store.capabilities.reach is Reach.PROCESS
        delay_us = 0 if is_alone else round(ROUTE_DELAY_S * 1_000_000)
        from_us = self._clock.now_us() + delay_us
        changed = self._change(found, lambda known: known.with_partitions(wanted, from_us))
        self._appends.drop_topic(found.topic)
        return changed

    def declare_payload(self, topic: TopicName, declared: object) -> StoredTopic:
        """Set the declared payload schema, or remove it with None."""
        packed = None if declared is None else encode_payload_schema(declared)
        self._access.check_mode(Mode.WRITE)
        found = self._access.find(topic)
        return self._change(found, lambda known: known.with_payload_schema(packed))

    def drop(self, topic: TopicName) -> None:
        """Remove a topic."""
        check_may_shorten(topic)
        self._access.check_mode(Mode.WRITE)
        found = self._access.find(topic)
        self._store.drop_topic(found)
        self._appends.drop_topic(found.topic)

    def trim(self, topic: TopicName, partition: int, before: int, *, force: bool) -> TrimReport:
        """Remove the records before an offset; see LogWriter."""
        check_may_shorten(topic)
        before, force = check_whole("before", before), check_flag("force", force)
        found, number = self._access.partition(topic, partition)
        self._access.check_mode(Mode.CONSUME if is_internal_name(found.topic.name) else Mode.WRITE)
        check_own(found)
        return self._retention.trim(found, number, before, force=force)

    def evict(self, topic: TopicName, partition: int, before: int) -> Offset:
        """Remove records from the store alone; see LogWriter."""
        check_may_shorten(topic)
        before = check_whole("before", before)
        self._access.check_mode(Mode.WRITE)
        found, number = self._access.partition(topic, partition)
        check_own(found)
        return self._retention.evict(found, number, before)

    def seal(self, topic: TopicName) -> int:
        """Seal a topic's segments; see LogWriter."""
        self._access.check_mode(Mode.WRITE)
        return self._access.seal(self._access.find(topic, fresh=True))

    def erase(self, topic: TopicName, key: str, *, dry_run: bool) -> ErasureReport:
        """Erase the records of a key; see Log.erase."""
        return erase(self._store, self._access, topic, key, dry_run=dry_run)

    def apply_retention(self, topic: TopicName) -> Sequence[TrimReport]:
        """Trim each partition to the topic's retention; see LogWriter."""
        check_may_shorten(topic)
        self._access.check_mode(Mode.WRITE)
        found = self._access.find(topic, fresh=True)
        check_own(found)
        return [self._retention.apply(found, each) for each in range(found.settings.partitions)]

    def _change(
        self, found: StoredTopic, change: Callable[[TopicSettings], TopicSettings]
    ) -> StoredTopic:
        check_own(found)
        self._store.change_settings(found, change)
        return self._access.find(found.topic, fresh=True)
