"""The same life of one tenant, with and without another beside it."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pyarrow as pa

import strandline as sl
from strandline.testing import FakeClock
from strandline.values import Tenant, Topic

NAMES = ("orders", "order", "orders2", "prices", "Prices", "visits", "visit", "clicks")
SHARED = ("prices", "visits")
CONSUMERS = ("billing", "shipping")
WHERE = ("", "", "kind = 'x'", "100 / (id % 4 - 1) > 1", "100 / (id % 16 - 2) > 1")
"""The fourth fails on rows of bob's, whose ids are odd, the fifth on alice's own."""
PLAIN = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("kind", pa.string())])
OTHER = pa.schema([pa.field("id", pa.string())])
WIDER = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("kind", pa.string())])
LONGER = PLAIN.append(pa.field("note", pa.string()))
SCHEMAS = (PLAIN, PLAIN, PLAIN, OTHER, WIDER, LONGER)
STRANGER = Topic("orders", UUID("018bcfe5-6800-7000-8000-000000000001"), Tenant("bob"))

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

STEPS = 250

Seen = tuple[object, ...]


@dataclass
class Actor:
    """One tenant at work: what it does follows from its seed and what itself has seen."""

    scope: sl.Scope
    rng: random.Random
    streams: list[tuple[bool, sl.ScopedSubscription[Any]]] = field(default_factory=list)
    foreign: Callable[[], Topic] = lambda: STRANGER
    number: int = 0

    def step(self) -> Seen:
        """Do something, and return everything that could be observed of it."""
        name, act = self.rng.choice(ACTS)
        try:
            return (name, *act(self))
        except sl.StrandlineError as error:
            return (name, type(error).__name__, _ID.sub("<id>", str(error)))

    def name(self) -> str:
        return self.rng.choice(NAMES)

    def batch(self) -> pa.RecordBatch:
        self.number += 2
        schema = self.rng.choice((PLAIN, PLAIN, PLAIN, WIDER, OTHER))
        rows = [{"id": self.number, "kind": self.rng.choice("xyz")} for _ in range(2)]
        if schema is OTHER:
            rows = [{"id": "text"}]
        return pa.RecordBatch.from_pylist(rows, schema=schema)

    def is_shared(self, name: str) -> bool:
        return self.scope.topic(name).tenant is None


def shown(is_shared: bool, delivered: Any) -> Seen:
    """Return what a delivery shows, without its place if the topic is shared."""
    place = None if is_shared else (delivered.partition, delivered.offset)
    if isinstance(delivered, sl.Record):
        return (place, delivered.key, delivered.tenant, delivered.kind, delivered.payload)
    key, rows = delivered.record.key, delivered.batch.to_pylist()
    return (place, key, delivered.tenant, rows, delivered.rows.to_pylist())


def defined(topic: sl.TopicDefinition) -> Seen:
    return (
        *(topic.name, topic.tenant, topic.value_kind, topic.versions),
        *(dict(topic.metadata), topic.partitions, topic.created_at_us),
    )


def register(actor: Actor) -> Seen:
    rng = actor.rng
    metadata = rng.choice(({}, {}, {"owner": "me"}, {"retention_seconds": "60"}))
    name, schema, partitions = actor.name(), rng.choice(SCHEMAS), rng.choice((1, 1, 2))
    made = actor.scope.register(name, schema, metadata=metadata, partitions=partitions)
    return defined(made)


def look_up(actor: Actor) -> Seen:
    return defined(actor.scope.topic(actor.name()))


def listing(actor: Actor) -> Seen:
    return tuple(defined(topic) for topic in actor.scope.topics())


def drop(actor: Actor) -> Seen:
    if actor.rng.random() < 0.8:
        return ()
    actor.scope.drop(actor.scope.topic(actor.name()).id)
    return ("dropped",)


def evolve(actor: Actor) -> Seen:
    return defined(actor.scope.evolve(actor.name(), actor.rng.choice(SCHEMAS)))


def publish(actor: Actor) -> Seen:
    rng, name = actor.rng, actor.name()
    options: dict[str, Any] = {}
    kind = rng.randrange(4)
    if kind == 1:
        options = {"producer": "p", "sequence": rng.randrange(12)}
    elif kind == 2:
        options = {"idempotency_key": f"k{rng.randrange(12)}"}
    elif kind == 3:
        options = {"key": rng.choice("abc")}
    value: Any = actor.batch()
    if name == "clicks":
        value = sl.Event("click", {"n": actor.number})
    receipt = actor.scope.publish(name, value, **options)
    place = None if actor.is_shared(name) else (receipt.partition, receipt.offset)
    return (place, receipt.is_repeat, receipt.level)


def replay(actor: Actor) -> Seen:
    name = actor.name()
    is_shared = actor.is_shared(name)
    replay = actor.scope.replay(name, sl.EARLIEST, where=actor.rng.choice(WHERE))
    return tuple(shown(is_shared, each) for each in replay)


def subscribe(actor: Actor) -> Seen:
    name = actor.name()
    consumer = actor.rng.choice((None, *CONSUMERS))
    start = actor.rng.choice((sl.LATEST, sl.EARLIEST))
    if len(actor.streams) > 5:
        actor.streams.pop(0)[1].close()
    stream = actor.scope.subscribe(
        name,
        where=actor.rng.choice(WHERE),
        start=start,
        consumer=consumer,
        read_ahead=3,
    )
    actor.streams.append((actor.is_shared(name), stream))
    return ("open",)


def follow(actor: Actor) -> Seen:
    if not actor.streams:
        return ()
    is_shared, stream = actor.rng.choice(actor.streams)
    found = list(iter(lambda: stream.next(0.0), None))
    if found and actor.rng.random() < 0.5:
        stream.ack(found[-1])
    # Partitions take turns; a shared topic has one, whose order is what counts.
    told = [shown(is_shared, each) for each in found]
    return tuple(told if is_shared else sorted(told, key=repr))


def consumers(actor: Actor) -> Seen:
    name = actor.name()
    found = actor.scope.consumers(name)
    if actor.is_shared(name):
        return tuple(
            (each.consumer, each.partition, each.delivered is None, each.acked is None)
            for each in found
        )
    return tuple(found)


def meddle(actor: Actor) -> Seen:
    """Try another tenant's topic, of which the id is known from somewhere."""
    foreign = actor.foreign()
    tried: list[Seen] = []
    for act in (
        lambda: actor.scope.publish(foreign, actor.batch()),
        lambda: actor.scope.topic(foreign),
        lambda: list(actor.scope.replay(foreign, 0)),
        lambda: actor.scope.subscribe(foreign, start=0),
        lambda: actor.scope.consumers(foreign),
        lambda: actor.scope.evolve(foreign, WIDER),
        lambda: actor.scope.drop(foreign.id),
    ):
        try:
            tried.append(("done", act()))
        except sl.StrandlineError as error:
            text = _ID.sub("<id>", str(error)).replace(repr(foreign.name), "<name>")
            tried.append((type(error).__name__, text.split(" near=")[0]))
    return tuple(tried)


ACTS: tuple[tuple[str, Callable[[Actor], Seen]], ...] = (
    *(("register", register),) * 2,
    ("look_up", look_up),
    ("listing", listing),
    ("drop", drop),
    ("evolve", evolve),
    *(("publish", publish),) * 5,
    *(("replay", replay),) * 2,
    ("subscribe", subscribe),
    *(("follow", follow),) * 3,
    ("consumers", consumers),
    ("meddle", meddle),
)


def life(url: str, seed: int, steps: int, *, beside: bool) -> list[Seen]:
    """Return what alice sees in so many steps; with `beside`, bob is at work as well."""
    clock = FakeClock(seed=seed)
    with sl.open(url, clock=clock) as log:
        shared_scope = log.scope()
        for name in SHARED:
            shared_scope.register(name, PLAIN)
        log.create_topic("clicks")
        alice = Actor(log.scope("alice"), random.Random(f"alice {seed}"))
        bob = Actor(log.scope("bob"), random.Random(f"bob {seed}"), number=1)
        world = random.Random(f"world {seed}")
        alice.foreign = lambda: _own(log, "bob") or STRANGER
        seen = []
        for _ in range(steps):
            for _ in range(world.randrange(4)):
                if beside:
                    bob.step()
            if world.random() < 0.1:
                shared_scope.publish(world.choice(SHARED), announcement())
            seen.append(alice.step())
        for actor in (alice, bob):
            for _, stream in actor.streams:
                stream.close()
        return seen


def difference(url: str, seed: int, steps: int, alone: str | None = None) -> str:
    """Return where the two runs part; nothing if they do not."""
    with_bob = life(url, seed, steps, beside=True)
    without = life(alone or url, seed, steps, beside=False)
    for number, (one, other) in enumerate(zip(with_bob, without, strict=True)):
        if one != other:
            return f"seed {seed}, step {number}:\n with bob {one}\n without  {other}"
    return ""


def run(seed: int) -> None:
    """Compare STEPS of her with and without him."""
    assert not (found := difference("memory:", seed, STEPS)), found


def announcement() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": 0, "kind": "all"}], schema=PLAIN)


def _own(log: sl.Log, tenant: str) -> Topic | None:
    topics = log.topics(tenant=tenant)
    return topics[0] if topics else None
