"""A cache of topics that were appended to, to save the lookup."""

from strandline.log import AsyncLog
from strandline.server.caller import Caller
from strandline.values import Tenant, Topic, ValueKind, check_topic_name

_KEPT_MAX = 10_000


class KnownTopics:
    """The kinds of topics by tenant and name. For one event loop."""

    def __init__(self) -> None:
        self._known: dict[tuple[Tenant | None, str], tuple[Topic, ValueKind]] = {}

    async def appended(self, caller: Caller, log: AsyncLog, name: str) -> tuple[Topic, ValueKind]:
        """Return a topic that the caller may see, and its kind of values, from a cache."""
        place = caller.tenant, name
        found = self._known.get(place)
        if found is not None and caller.sees(name):
            return found
        topic = await caller.topic(log, check_topic_name(name))
        description = await log.describe_topic(topic)
        if len(self._known) >= _KEPT_MAX:
            self._known.clear()
        found = self._known[place] = topic, description.settings.value_kind
        return found

    def forget(self, topic: Topic) -> None:
        """Remove the topic from the cache."""
        self._known.pop((topic.tenant, topic.name), None)
