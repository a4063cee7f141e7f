"""The caller of a request, with its permissions."""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from strandline.log import AsyncLog, Log
from strandline.log.topics import unknown_topic
from strandline.server.problems import RequestError
from strandline.server.tokens import EVERY_SCOPE, Token, TokenScope
from strandline.values import InvalidError, Tenant, Topic, check_topic_name


@dataclass(frozen=True, slots=True)
class Caller:
    """A token's scopes, topics and tenant; without a token, all of the log's global topics."""

    id: str
    scopes: frozenset[TokenScope]
    topics: tuple[str, ...]
    tenant: Tenant | None

    def check(self, scope: TokenScope) -> None:
        """Raise unless the caller has the scope."""
        if scope not in self.scopes:
            raise RequestError(403, f"this needs a token with the scope {scope}")

    def sees(self, name: str) -> bool:
        """Whether the caller may see a topic of this name."""
        return _matches(self.topics, name)

    def check_name(self, name: str) -> str:
        """Return the name of a topic to be created; it is one that the caller may use."""
        checked = check_topic_name(name)
        if not self.sees(checked):
            raise RequestError(403, "this token is for topics of other names")
        return checked

    async def topic(self, log: AsyncLog, name: str) -> Topic:
        """Return the caller's topic of this name.

        A topic that it may not see raises the same error as one that does not exist.
        """
        checked = check_topic_name(name)
        if self.sees(checked):
            with contextlib.suppress(InvalidError):
                return await log.topic(checked, tenant=self.tenant)
        raise unknown_topic(checked, [each.name for each in await self.visible(log)])

    def find(self, log: Log, name: str) -> Topic:
        """Return the caller's topic of this name, as `topic` does; blocks."""
        checked = check_topic_name(name)
        if self.sees(checked):
            with contextlib.suppress(InvalidError):
                return log.topic(checked, tenant=self.tenant)
        raise unknown_topic(checked, [each.name for each in self.all_of(log)])

    def all_of(self, log: Log) -> list[Topic]:
        """Return the topics that the caller may see, as `visible` does; blocks."""
        return self.only(log.topics(tenant=self.tenant))

    async def visible(self, log: AsyncLog) -> list[Topic]:
        """Return the topics that the caller may see, sorted by name."""
        return self.only(await log.topics(tenant=self.tenant))

    def only(self, topics: Iterable[Topic]) -> list[Topic]:
        """Return the topics that the caller may see, among its tenant's topics."""
        return [each for each in topics if self.sees(each.name)]


class RequestsUnderWay:
    """Counts the unanswered requests of each caller. For one event loop."""

    def __init__(self, each_max: int) -> None:
        self._max = each_max
        self._counts: dict[str, int] = {}

    def enter(self, caller: Caller) -> None:
        """Count one more; RequestError if there are too many."""
        if not self.has_room(caller):
            detail = "this token has too many requests under way"
            raise RequestError(429, detail, {"retry-after": "1"})
        self._counts[caller.id] = self._counts.get(caller.id, 0) + 1

    def has_room(self, caller: Caller) -> bool:
        """Whether the caller may send one more request."""
        return self._counts.get(caller.id, 0) < self._max

    def leave(self, caller: Caller) -> None:
        """Count one less."""
        count = self._counts[caller.id] - 1
        if count:
            self._counts[caller.id] = count
        else:
            del self._counts[caller.id]


LOOPBACK: Final = Caller("loopback", EVERY_SCOPE, ("*",), None)
"""A caller without a token, where that is allowed."""


def caller_of(token: Token) -> Caller:
    """Return the caller with a token."""
    return Caller(token.id, token.scopes, token.topics, token.tenant)


@lru_cache(maxsize=4096)
def _matches(patterns: tuple[str, ...], name: str) -> bool:
    return any(fnmatchcase(name, each) for each in patterns)
