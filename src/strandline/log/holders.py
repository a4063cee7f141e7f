"""Which processes write to a log and hold its consumers: to show to people, not to decide by."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strandline.log.claims import host_name, process_exists
from strandline.log.store import still_there
from strandline.log.stored_groups import GROUPS_PREFIX, decode_group
from strandline.values import StrandlineError, Tenant

if TYPE_CHECKING:
    from strandline.log.log import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHolder:
    """A process, and what it holds or held last."""

    role: str
    """`writer`, `session` of a database server, `consumer`, or `worker` of a work queue."""
    topic: str | None = None
    """None for the whole log."""
    tenant: str | None = None
    """The topic's tenant."""
    partition: int | None = None
    name: str = ""
    """The consumer's tenant."""
    pid: int | None
    host: str
    since_us: int | None
    is_live: bool
    """Whether the process still exists, or its lease has not expired."""


def holders_of(log: "Log") -> Sequence[LogHolder]:
    """Return the processes that write to a log, if the store knows them, or hold its consumers."""
    parts = log._parts  # noqa: SLF001 - A part of the log.
    parts.store.check_open()
    writers = getattr(parts.store, "writers", None)
    return [*(() if writers is None else writers()), *_members(parts.store, parts.clock.now_us())]


def local_writer(pid: int, since_us: int, **place: Any) -> LogHolder:
    """Return the process of this host that writes, or wrote last."""
    return LogHolder(
        role="writer",
        pid=pid,
        host=host_name(),
        since_us=since_us,
        is_live=process_exists(pid),
        **place,
    )


def _members(store: Any, now_us: int) -> Iterator[LogHolder]:
    for topic, keys in still_there(store.topics(), lambda each: (each, store.keys(each))):
        for key, raw in keys.items():
            if not key.startswith(GROUPS_PREFIX):
                continue
            tenant, _, name = key.removeprefix(GROUPS_PREFIX).partition("/")
            try:
                group = decode_group(raw, Tenant(tenant) if tenant else None, name)
            except StrandlineError:
                # `verify` reports the damage.
                continue
            for member in group.members:
                held: Sequence[int | None] = group.held_by(member.id)
                for partition in held or [None]:
                    hold = None if partition is None else group.hold(partition)
                    yield LogHolder(
                        role="worker" if member.is_shared else "consumer",
                        topic=topic.topic.name,
                        tenant=topic.topic.tenant,
                        partition=partition,
                        name=name,
                        pid=member.pid,
                        host=member.host,
                        since_us=member.started_at_us if hold is None else hold.since_us,
                        is_live=member.is_live_at(now_us),
                    )
