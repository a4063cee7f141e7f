"""The topics that a remote log may access: its caller's, and their internal topics."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from strandline.log import Store
from strandline.log.store import StoredTopic
from strandline.server.caller import Caller
from strandline.server.problems import RequestError
from strandline.server.tokens import EVERY_SCOPE, TokenScope
from strandline.values import DroppedError, Tenant, Topic
from strandline.values.internal_topics import (
    DEAD_LETTERS_PREFIX,
    DELIVERIES_PREFIX,
    HANDLED_PREFIX,
    REDRIVEN_PREFIX,
    TOKENS_TOPIC,
)
from strandline.values.names import RESERVED_PREFIX


class RemoteTopics:
    """Finds the topics of one store for remote logs. Any thread may use it."""

    def __init__(self, store: Store[Any]) -> None:
        self._store = store
        #: A cache; the store raises if one was dropped.
        self._known: dict[UUID, StoredTopic] = {}

    def all(self, caller: Caller) -> Sequence[StoredTopic]:
        """Return every topic that the caller may access."""
        return [each for each in self._store.topics() if self.reaches(caller, each.topic)]

    def find(self, caller: Caller, tenant: Tenant | None, name: str) -> StoredTopic | None:
        """Return a topic by its name; without a tenant, that of the caller's tenant."""
        found = self._store.find_topic(owner_of(caller, tenant), name, fresh=True)
        return found if found is not None and self.reaches(caller, found.topic) else None

    def by_id(self, caller: Caller, topic_id: UUID) -> StoredTopic:
        """Return a topic by its id; DroppedError if there is none that the caller may access."""
        found = self._known.get(topic_id) or self._store.find_topic_id(topic_id)
        if found is None or not self.reaches(caller, found.topic):
            self._known.pop(topic_id, None)
            raise DroppedError("this topic was dropped", topic=str(topic_id), near=[])
        self._known[topic_id] = found
        return found

    def refreshed(self, caller: Caller, topic: Topic) -> StoredTopic:
        """Return the present state of a topic, with partitions that were added."""
        found: StoredTopic | None = self._store.find_topic(topic.tenant, topic.name, fresh=True)
        if found is None or found.topic.id != topic.id:
            self.forget(topic.id)
            return self.by_id(caller, topic.id)
        self._known[topic.id] = found
        return found

    def is_known(self, topic_id: UUID) -> bool:
        """Whether `by_id` finds the topic without the store."""
        return topic_id in self._known

    def forget(self, topic_id: UUID) -> None:
        """Remove a topic from the cache."""
        self._known.pop(topic_id, None)

    def reaches(self, caller: Caller, topic: Topic) -> bool:
        """Whether the caller may access a topic."""
        if topic.name == TOKENS_TOPIC:
            return _is_operator(caller)
        if self.is_everything(caller):
            return True
        if caller.tenant != topic.tenant:
            return False
        if caller.topics == ("*",) or not topic.name.startswith(RESERVED_PREFIX):
            return caller.sees(topic.name)
        return self._reaches_origin(caller, topic.name)

    def is_everything(self, caller: Caller) -> bool:
        """Whether the caller may know of all topics, and so of the one with all schemas."""
        return caller.tenant is None and caller.topics == ("*",)

    def _reaches_origin(self, caller: Caller, name: str) -> bool:
        for prefix in (DEAD_LETTERS_PREFIX, REDRIVEN_PREFIX):
            if name.startswith(prefix):
                return caller.sees(name.removeprefix(prefix))
        for prefix in (DELIVERIES_PREFIX, HANDLED_PREFIX):
            if name.startswith(prefix):
                return self._reaches_id(caller, name.removeprefix(prefix).partition(".")[0])
        return False

    def _reaches_id(self, caller: Caller, text: str) -> bool:
        try:
            found = self._store.find_topic_id(UUID(text))
        except ValueError:
            return False
        return found is not None and self.reaches(caller, found.topic)

    def check_new(self, caller: Caller, tenant: Tenant | None, name: str) -> Tenant | None:
        """Return the tenant of a new topic; RequestError unless the caller may create it."""
        whose = owner_of(caller, tenant)
        if whose != caller.tenant and caller.topics != ("*",):
            raise RequestError(403, "this token is for topics without a tenant")
        is_internal = name.startswith(RESERVED_PREFIX)
        caller.check(TokenScope.CONSUME if is_internal else TokenScope.ADMIN)
        if name == TOKENS_TOPIC and not _is_operator(caller):
            raise RequestError(403, "only a token with every scope can create tokens")
        is_everything = caller.topics == ("*",)
        if not is_everything:
            allowed = self._reaches_origin(caller, name) if is_internal else caller.sees(name)
            if not allowed:
                raise RequestError(403, "this token is for topics of other names")
        return whose

    def check_change(self, caller: Caller, topic: Topic) -> None:
        """Raise RequestError unless the caller may trim or drop the topic."""
        is_internal = topic.name.startswith(RESERVED_PREFIX)
        caller.check(TokenScope.CONSUME if is_internal else TokenScope.ADMIN)

    def check_append(self, caller: Caller, topic: Topic) -> None:
        """Raise RequestError unless the caller may append to the topic."""
        is_internal = topic.name.startswith(RESERVED_PREFIX)
        if not (is_internal and TokenScope.CONSUME in caller.scopes):
            caller.check(TokenScope.APPEND)


def _is_operator(caller: Caller) -> bool:
    """Whether the caller has every permission that a token can have."""
    return caller.tenant is None and caller.topics == ("*",) and caller.scopes == EVERY_SCOPE


def owner_of(caller: Caller, tenant: Tenant | None) -> Tenant | None:
    """Return the tenant that is meant; without one, that of the token."""
    if caller.tenant is None:
        return tenant
    if tenant in (None, caller.tenant):
        return caller.tenant
    raise RequestError(403, "this token is of another tenant")
