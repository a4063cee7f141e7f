"""Views and triggers of the server's process over HTTP: their state, and lookups in views."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import msgspec
from starlette.responses import Response

from strandline.log.off_loop import in_thread
from strandline.server.call import Call
from strandline.server.caller import Caller
from strandline.server.endpoint import JSON, endpoint, json_answer
from strandline.server.tokens import TokenScope
from strandline.triggers import Triggers
from strandline.values import InvalidError, Topic
from strandline.views import LiveView


class Work:
    """The views and triggers of this process that the application was created with."""

    def __init__(self, views: Mapping[str, LiveView[Any]], triggers: Sequence[Triggers]) -> None:
        self._views = dict(views)
        self.triggers: Final = tuple(triggers)

    def views(self, caller: Caller) -> dict[str, LiveView[Any]]:
        """Return the views by name, of topics that the caller sees."""
        return {name: each for name, each in self._views.items() if _sees(caller, each.topic)}

    def view(self, caller: Caller, name: str) -> LiveView[Any]:
        """Return a view; InvalidError if there is none that the caller may see."""
        found = self.views(caller).get(name)
        if found is None:
            raise InvalidError("there is no such view here", view=name, near=[])
        return found


class ViewedPartition(msgspec.Struct):
    """The state of a view in a partition."""

    partition: int
    readiness: str
    applied: int
    committed: int
    end: int
    lag: int
    quarantined: dict[str, str]
    fault: str | None


class ShownView(msgspec.Struct):
    """A view of the server's process."""

    name: str
    topic: str
    is_running: bool
    is_healthy: bool
    fault: str | None
    partitions: list[ViewedPartition]


class ShownViews(msgspec.Struct):
    """The views of the server's process, over topics that the caller sees."""

    views: list[ShownView]


class ViewQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What an answer has to contain."""

    at_least: int | None = None
    """The offset of a record of the key's partition that the view must have applied."""


class ViewAnswer(msgspec.Struct):
    """The value of a key in a view; null if there is none."""

    view: str
    key: str
    partition: int
    applied: int
    value: Any


class ShownTrigger(msgspec.Struct):
    """A trigger of the server's process, with its counters since it was started."""

    name: str
    topic: str
    is_running: bool
    handled: int
    retried: int
    dead_lettered: int
    deduplicated: int
    passed_over: int
    lost: int
    in_flight: int
    lag: int


class ShownTriggers(msgspec.Struct):
    """The triggers of the server's process, on topics that the caller sees."""

    triggers: list[ShownTrigger]


@endpoint("GET", "/v1/views", TokenScope.READ, answers={JSON: ShownViews})
async def list_views(call: Call) -> Response:
    """List the views that run in the server's process, with the readiness of each partition."""
    found = call.work.views(call.caller)
    views = await in_thread(lambda: [_shown(name, each) for name, each in sorted(found.items())])
    return json_answer(ShownViews(views))


@endpoint(
    "GET",
    "/v1/views/{view}/{key}",
    TokenScope.READ,
    query=ViewQuery,
    answers={JSON: ViewAnswer},
)
async def get_view_key(call: Call) -> Response:
    """Return the value of a key in a view whose state is a mapping. 404 without such a view.

    503 as long as the partition has not caught up, or has not applied the record `at_least`:
    send it again.
    """
    name, key = call.path("view"), call.path("key")
    view, least = call.work.view(call.caller, name), call.query(ViewQuery).at_least
    return json_answer(await in_thread(_look_up, view, name, key, least))


@endpoint("GET", "/v1/triggers", TokenScope.READ, answers={JSON: ShownTriggers})
async def list_triggers(call: Call) -> Response:
    """List the triggers that run in the server's process, with their counters."""
    return json_answer(ShownTriggers(await in_thread(_shown_triggers, call)))


def _shown(name: str, view: LiveView[Any]) -> ShownView:
    health = view.health()
    fault = health.cause or health.snapshot_fault
    partitions = [
        ViewedPartition(
            partition=number,
            readiness=str(each.readiness),
            applied=each.applied,
            committed=each.committed,
            end=each.end,
            lag=each.lag,
            quarantined={str(offset): reason for offset, reason in each.quarantined.items()},
            fault=None if each.fault is None else str(each.fault),
        )
        for number, each in sorted(health.partitions.items())
    ]
    return ShownView(
        name=name,
        topic=view.topic.name,
        is_running=health.is_running,
        is_healthy=health.is_healthy,
        fault=None if fault is None else str(fault),
        partitions=partitions,
    )


def _look_up(view: LiveView[Any], name: str, key: str, least: int | None) -> ViewAnswer:
    def look(state: object) -> bytes:
        if not isinstance(state, Mapping):
            raise InvalidError("the state of this view is no mapping, it has no keys", view=name)
        # Encoded here, because the state may change afterwards.
        return _encoded(state.get(key), name)

    partition = view.partition_of(key)
    applied = view.applied(partition)
    found = view.read(partition, look, default=b"null", min_offset=least)
    return ViewAnswer(name, key, int(partition), applied, msgspec.Raw(found))


def _encoded(value: object, view: str) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError) as error:
        raise InvalidError("JSON cannot hold this answer", view=view, reason=str(error)) from None


def _shown_triggers(call: Call) -> list[ShownTrigger]:
    log, found = call.log.blocking, []
    for runner in call.work.triggers:
        counted = runner.metrics()
        for each in runner.registered():
            topic = log.topic(each.topic)
            if _sees(call.caller, topic):
                lags = [lag.lag for lag in log.consumers(topic) if lag.consumer == each.name]
                shown = ShownTrigger(
                    name=each.name,
                    topic=topic.name,
                    is_running=runner.is_running,
                    lag=sum(lags),
                    **asdict(counted[each.name]),
                )
                found.append(shown)
    return found


def _sees(caller: Caller, topic: Topic) -> bool:
    return topic.tenant == caller.tenant and caller.sees(topic.name)


ENDPOINTS = (list_views, get_view_key, list_triggers)
