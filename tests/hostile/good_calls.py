"""A good call of every public callable, from which each hostile one is made."""

import contextlib
import functools
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa

import strandline as sl
from strandline import spark, subscriptions, tiering, triggers, typed
from strandline.predicates import check_syntax
from strandline.spark import jobs, pipelines
from strandline.testing import FakeClock
from strandline.values import Record
from tests.hostile.folder import own_folder
from tests.hostile.stored import content

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
BATCH = pa.RecordBatch.from_pylist([{"id": 1, "name": "a"}, {"id": 2, "name": None}], SCHEMA)


class Counting(sl.View[list[int]]):
    """Counts records."""

    def initial(self, partition: int) -> list[int]:  # noqa: ARG002 - As a view has it.
        return [0]

    def apply(self, state: list[int], record: Record) -> int:  # noqa: ARG002 - As a view has it.
        state[0] += 1
        return state[0]


class Saved(Counting):
    """Counts records, and is saved."""

    def encode(self, state: list[int]) -> bytes:
        return str(state[0]).encode()

    def decode(self, stored: bytes) -> list[int]:
        return [int(stored)]


class NoSession:
    """What a job has got that is refused before it asks Spark for anything."""

    def __getattr__(self, name: str) -> Any:
        raise sl.UnavailableError("Spark was asked", name=name)


_NO_SESSION = NoSession()


class World:
    """A log with something of everything in it, and what was opened of it."""

    def __init__(self, scheme: str) -> None:
        self._resources = contextlib.ExitStack()
        self.folder = self._resources.enter_context(own_folder())
        url = "memory:" if scheme == "memory" else f"{scheme}:{self.folder}/log"
        self.log = self._resources.enter_context(sl.open(url))
        self.cold = f"file://{self.folder}/cold"
        #: The log that jobs open by themselves.
        self.url = url if scheme != "memory" else f"file:{self.folder}/of-jobs"
        if scheme == "memory":
            with sl.open(self.url) as of_jobs:
                of_jobs.create_topic("events")
        self.log.create_topic("events", partitions=2)
        self.log.append_many("events", [sl.Event("k", n, key=str(n)) for n in range(6)])
        self.log.create_topic("batches", value_kind=sl.ValueKind.BATCH)
        self.log.append("batches", BATCH)
        self.scope.register("typed", SCHEMA)
        self.scope.publish("typed", BATCH)
        self.log.ack("events", "reader", 0, 1)
        self.log.flush()

    def close(self) -> None:
        """Close everything."""
        self._resources.close()

    @property
    def scope(self) -> sl.Scope:
        """The global scope."""
        return self.log.scope()

    @cached_property
    def member(self) -> sl.SharedConsumer:
        """A member of a work queue."""
        return self._resources.enter_context(self.log.consumer("events", "queue", shared=True))

    @cached_property
    def leased(self) -> sl.Record:
        """A record that the member holds."""
        (found,) = self.member.fetch(1, timeout_s=5)
        return found.record

    @cached_property
    def consumer(self) -> sl.Consumer:
        """A consumer to which two records were delivered."""
        made = self._resources.enter_context(self.log.consumer("events", "worker"))
        made.next(timeout_s=0)
        made.next(timeout_s=0)
        return made

    @cached_property
    def delivered(self) -> Record:
        """A record that the consumer has outstanding."""
        consumer = self.log.consumer("events", "other")
        self.other = self._resources.enter_context(consumer)
        found = self.other.next(timeout_s=0)
        assert found is not None
        return found.record

    @cached_property
    def subscription(self) -> sl.Subscription[Record]:
        """A subscription from the beginning."""
        return self._resources.enter_context(self.log.subscribe("events"))

    @cached_property
    def unassigned(self) -> subscriptions.Assignment:
        """The assignment of a subscription that reads nothing yet."""
        opened = self.log.subscribe("events", partitions=())
        return self._resources.enter_context(opened).assignment

    @cached_property
    def scoped(self) -> sl.ScopedSubscription[Any]:
        """A subscription of a scope, from the beginning."""
        opened = self.scope.subscribe("typed", start=0, consumer="c")
        return self._resources.enter_context(opened)

    @cached_property
    def live(self) -> sl.LiveView[list[int]]:
        """A view that is ready."""
        made = self._resources.enter_context(sl.LiveView(self.log, "events", Counting()))
        made.reconcile([0, 1])
        made.wait_ready(timeout_s=60)
        return made

    @cached_property
    def catalogue(self) -> tiering.SegmentCatalogue:
        """The catalogue of copies."""
        made = tiering.SegmentCatalogue(self.log, partitions=1)
        self._resources.callback(made.close)
        return made

    @cached_property
    def runner(self) -> sl.Triggers:
        """Triggers that do not run."""
        return sl.Triggers(self.log, ())

    @cached_property
    def broker(self) -> sl.MachineBroker:
        """A broker of its own."""
        return self._resources.enter_context(
            contextlib.closing(sl.MachineBroker(f"{self.folder}/broker"))
        )

    @cached_property
    def known(self) -> subscriptions.LiveSubscription:
        """What a broker gets to know about a subscription."""
        return subscriptions.LiveSubscription(self.log.topic("events"), "a", None, 1)

    @cached_property
    def copy(self) -> str:
        """A copy of the log that jobs open."""
        path = f"{self.folder}/a-copy"
        sl.backup(path, url=self.url)
        return path

    @cached_property
    def saved(self) -> str:
        """The path of a view's snapshot."""
        path = f"{self.folder}/saved"
        with sl.LiveView(self.log, "events", Saved(), snapshot=path) as view:
            view.reconcile([0, 1])
            view.wait_ready(timeout_s=60)
        return path

    @cached_property
    def copied(self) -> tiering.UserPartition:
        """A partition, as the catalogue of copies has it."""
        return tiering.UserPartition(self.log.topic("events").id, 0, "events")

    def content(self) -> object:
        """Return everything that is stored, to compare."""
        return content(self.log)


class Call(NamedTuple):
    """Something to call, with arguments that are right."""

    function: Callable[..., Any]
    arguments: dict[str, Any]


def _call(function: Callable[..., Any], /, **arguments: Any) -> Call:
    return Call(function, arguments)


def _asking_catalogue(*names: str, **more: Any) -> dict[str, Callable[[World], Call]]:
    def asking(name: str) -> Callable[[World], Call]:
        return lambda w: _call(getattr(w.catalogue, name), place=w.copied, **more)

    return {f"SegmentCatalogue.{name}": asking(name) for name in names}


def _append(world: World) -> dict[str, Any]:
    return {"topic": "events", "value": sl.Event("k", 1), "timeout_s": 5}


def _open(world: World) -> Call:
    return _call(sl.open, url=f"file:{world.folder}/other")


def _handler(record: Record) -> None:
    pass


def _mark(**arguments: Any) -> Any:
    return sl.on(**arguments)(_handler)


async def _on_loop(log: sl.Log, name: str, **given: Any) -> object:
    """Append on a loop, and await the receipt."""
    return await getattr(sl.AsyncLog(log), name)(**given)


CALLS: dict[str, Callable[[World], Call]] = {
    # The log.
    "is_erased": lambda w: _call(sl.is_erased, record=next(iter(w.log.read("events", 0, 0)))),
    "Log.ack": lambda w: _call(w.log.ack, topic="events", consumer="c", partition=0, end=1),
    "Log.add_partitions": lambda w: _call(w.log.add_partitions, topic="events", partitions=4),
    "Log.append": lambda w: Call(w.log.append, _append(w)),
    "Log.append_many": lambda w: _call(
        w.log.append_many, topic="events", values=[sl.Event("k", 1)], keys=["a"], timeout_s=5
    ),
    "Log.apply_retention": lambda w: _call(w.log.apply_retention, topic="events"),
    "Log.change_retention": lambda w: _call(
        w.log.change_retention, topic="events", retention_age_s=10**9, retention_bytes=None
    ),
    "Log.set_quota": lambda w: _call(
        w.log.set_quota, tenant="acme", bytes_max=10**9, records_per_s=10**6, topics_max=None
    ),
    "Log.erase": lambda w: _call(w.log.erase, topic="events", key="a", dry_run=True),
    "Log.declare_payload": lambda w: _call(
        w.log.declare_payload, topic="events", payload_schema=pa.schema({"n": pa.int64()})
    ),
    "Log.claim": lambda w: _call(w.log.claim, topic="events", consumer="c", partition=0),
    "Log.consumer": lambda w: _call(w.log.consumer, topic="events", name="c"),
    "Log.delete_consumer": lambda w: _call(
        w.log.delete_consumer, topic="events", consumer="reader"
    ),
    "Log.consumers": lambda w: _call(w.log.consumers, topic="events"),
    "Log.create_topic": lambda w: _call(
        w.log.create_topic, name="new", value_kind=sl.ValueKind.BATCH
    ),
    "Log.cursor": lambda w: _call(w.log.cursor, topic="events", consumer="reader", partition=0),
    "Log.describe_topic": lambda w: _call(w.log.describe_topic, topic="events"),
    "Log.drop_topic": lambda w: _call(w.log.drop_topic, topic="events"),
    "Log.epochs": lambda w: _call(w.log.epochs, topic="events", partition=0),
    "Log.evict": lambda w: _call(w.log.evict, topic="events", partition=0, before=0),
    "Log.history": lambda w: _call(w.log.history, topic="events", partition=0),
    "Log.marks": lambda w: _call(w.log.marks, topic="events", partition=0),
    "Log.offset_at": lambda w: _call(w.log.offset_at, topic="events", partition=0, timestamp_us=0),
    "Log.position": lambda w: _call(w.log.position, topic="events", partition=0, offset=1),
    "Log.proof_head": lambda w: _call(w.log.proof_head, topic="events", partition=0),
    "Log.read": lambda w: _call(w.log.read, topic="events", partition=0, start=0),
    "Log.read_batches": lambda w: _call(w.log.read_batches, topic="events", partition=0, start=0),
    "Log.register": lambda w: _call(w.log.register, topic="events", consumer="c", starts={0: 0}),
    "Log.resolve": lambda w: _call(w.log.resolve, position=w.log.position("events", 0, 1)),
    "Log.scan": lambda w: _call(w.log.scan, topic="events"),
    "Log.scope": lambda w: _call(w.log.scope),
    "Log.seal": lambda w: _call(w.log.seal, topic="events"),
    "Log.seek": lambda w: _call(w.log.seek, topic="events", consumer="c", partition=0, offset=1),
    "Log.segments": lambda w: _call(w.log.segments, topic="events", partition=0),
    "Log.subscribe": lambda w: _call(w.log.subscribe, topic="events"),
    "Log.sync": lambda w: _call(w.log.sync, topic="events", partition=0),
    "Log.topic": lambda w: _call(w.log.topic, name="events"),
    "Log.topics": lambda w: _call(w.log.topics),
    "Log.transaction": lambda w: _call(w.log.transaction),
    "Log.trim": lambda w: _call(w.log.trim, topic="events", partition=0, before=1),
    "Log.verify": lambda w: _call(w.log.verify, topic="events"),
    "Log.watch": lambda w: _call(w.log.watch),
    "Receipt.wait": lambda w: _call(w.log.append("events", sl.Event("k")).wait, timeout_s=5),
    "AsyncLog.append": lambda w: _call(
        functools.partial(_on_loop, w.log, "append"),
        topic="events",
        value=sl.Event("k"),
        timeout_s=5,
    ),
    "AsyncLog.append_many": lambda w: _call(
        functools.partial(_on_loop, w.log, "append_many"), topic="events", values=[sl.Event("k")]
    ),
    "AsyncReceipt.wait": lambda w: _call(
        sl.AsyncReceipt(w.log.append("events", sl.Event("k"))).wait, timeout_s=5
    ),
    # Values.
    "Event": lambda w: _call(sl.Event, kind="k", payload=1),
    "ProofHead.from_json": lambda w: _call(sl.ProofHead.from_json, data=b"{}"),
    # Opening.
    "open": _open,
    "backup": lambda w: _call(sl.backup, target=f"{w.folder}/copy", url=w.url),
    "restore": lambda w: _call(sl.restore, source=w.copy, url=f"file:{w.folder}/restored"),
    "copy": lambda w: _call(sl.copy, source=w.copy, target=f"file:{w.folder}/moved"),
    "scan": lambda w: _call(functools.partial(sl.scan, w.log), topic="events"),
    "describe": lambda w: _call(sl.describe, url=f"file:{w.folder}/none"),
    "install": lambda w: _call(sl.install, log_or_url="memory:"),
    "subscribe": lambda w: _call(functools.partial(sl.subscribe, w.log), topic="events"),
    # Scopes.
    "Scope.consumers": lambda w: _call(w.scope.consumers, name="typed"),
    "Scope.drop": lambda w: _call(w.scope.drop, topic=UUID(int=1)),
    "Scope.evolve": lambda w: _call(w.scope.evolve, name="typed", schema=SCHEMA),
    "Scope.publish": lambda w: _call(w.scope.publish, name="typed", value=BATCH, timeout_s=5),
    "Scope.publish_many": lambda w: _call(
        w.scope.publish_many, name="typed", values=[BATCH], timeout_s=5
    ),
    "Scope.register": lambda w: _call(w.scope.register, name="new", schema=SCHEMA),
    "Scope.replay": lambda w: _call(w.scope.replay, name="typed", start=0),
    "Scope.subscribe": lambda w: _call(w.scope.subscribe, name="typed"),
    "Scope.topic": lambda w: _call(w.scope.topic, name="typed"),
    "TopicDefinition.version_at": lambda w: _call(w.scope.topic("typed").version_at, number=1),
    "TopicDefinition.version_of": lambda w: _call(w.scope.topic("typed").version_of, schema=SCHEMA),
    "definition_of": lambda w: _call(typed.definition_of, log=w.log, topic="typed"),
    "scope_of": lambda w: _call(typed.scope_of, log=w.log, tenant="acme"),
    "spark_batch": lambda w: _call(typed.spark_batch, batch=BATCH),
    "spark_ddl": lambda w: _call(typed.spark_ddl, schema=SCHEMA),
    "spark_schema": lambda w: _call(typed.spark_schema, schema=SCHEMA),
    "spark_type": lambda w: _call(typed.spark_type, arrow=pa.int64()),
    # Readers.
    "Consumer": lambda w: _call(sl.Consumer, log=w.log, topic="events", name="c"),
    "SharedConsumer": lambda w: _call(
        sl.SharedConsumer, log=w.log, topic="events", name="queue", visibility_s=5.0
    ),
    "SharedConsumer.ack": lambda w: _call(w.member.ack, delivered=w.leased),
    "SharedConsumer.dead_letter": lambda w: _call(w.member.dead_letter, record=w.leased),
    "SharedConsumer.extend": lambda w: _call(w.member.extend, record=w.leased, visibility_s=5.0),
    "SharedConsumer.fetch": lambda w: _call(w.member.fetch, max_records=1, timeout_s=0),
    "SharedConsumer.nack": lambda w: _call(w.member.nack, record=w.leased),
    "SharedConsumer.next": lambda w: _call(w.member.next, timeout_s=0),
    "SharedConsumer.seek": lambda w: _call(w.member.seek, partition=0, offset=0),
    "AsyncSharedConsumer.fetch": lambda w: _call(
        sl.AsyncSharedConsumer(w.member).fetch, max_records=1, timeout_s=0
    ),
    "AsyncSharedConsumer.next": lambda w: _call(sl.AsyncSharedConsumer(w.member).next, timeout_s=0),
    "Event.payload_as": lambda w: _call(sl.Event("k", 1).payload_as, wanted=int),
    "Record.payload_as": lambda w: _call(next(w.log.read("events", 0, 0)).payload_as, wanted=dict),
    "Log.event": lambda w: _call(w.log.event, kind="k", payload=1),
    "Consumer.ack": lambda w: _call(w.consumer.ack, records=w.delivered),
    "AsyncConsumer.next": lambda w: _call(sl.AsyncConsumer(w.consumer).next, timeout_s=0),
    "Consumer.assign": lambda w: _call(w.consumer.assign, partitions=[0]),
    "Consumer.attempts": lambda w: _call(w.consumer.attempts, record=w.delivered),
    "Consumer.begin_alone": lambda w: _call(w.consumer.begin_alone, record=w.delivered),
    "Consumer.fetch": lambda w: _call(w.consumer.fetch, max_records=1, timeout_s=0),
    "Consumer.holds": lambda w: _call(w.consumer.holds, record=w.delivered),
    "Consumer.hand_back": lambda w: _call(w.consumer.hand_back, handled=()),
    "Consumer.nack": lambda w: _call(w.consumer.nack, record=w.delivered),
    "Consumer.next": lambda w: _call(w.consumer.next, timeout_s=0),
    "Consumer.dead_letter": lambda w: _call(w.consumer.dead_letter, record=w.delivered),
    "Consumer.seek": lambda w: _call(w.consumer.seek, partition=0, offset=0),
    "AsyncSubscription.next": lambda w: _call(
        sl.AsyncSubscription(w.subscription).next, timeout_s=0
    ),
    "Subscription.next": lambda w: _call(w.subscription.next, timeout_s=0),
    "ScopedSubscription.ack": lambda w: _call(w.scoped.ack, delivered=w.scoped.next(timeout_s=0)),
    "AsyncScopedSubscription.next": lambda w: _call(
        sl.AsyncScopedSubscription(w.scoped).next, timeout_s=0
    ),
    "ScopedSubscription.next": lambda w: _call(w.scoped.next, timeout_s=0),
    "Assignment.add": lambda w: _call(w.unassigned.add, partition=0),
    "Assignment.assigned": lambda w: _call(w.subscription.assignment.assigned),
    "Assignment.fault": lambda w: _call(w.subscription.assignment.fault, partition=0),
    "Assignment.position": lambda w: _call(w.subscription.assignment.position, partition=0),
    "Assignment.remove": lambda w: _call(w.subscription.assignment.remove, partition=0),
    "LocalBroker.attach": lambda w: _call(sl.LocalBroker().attach, live=w.known, wake=lambda: None),
    "LocalBroker.live": lambda w: _call(sl.LocalBroker().live),
    "LocalBroker.publish": lambda w: _call(sl.LocalBroker().publish, topic="events"),
    "MachineBroker": lambda w: _call(sl.MachineBroker, path=f"{w.folder}/again"),
    "MachineBroker.attach": lambda w: _call(w.broker.attach, live=w.known, wake=lambda: None),
    "MachineBroker.live": lambda w: _call(w.broker.live),
    "MachineBroker.publish": lambda w: _call(w.broker.publish, topic="events"),
    # Predicates.
    "Predicate.filter": lambda w: _call(sl.parse_predicate("id = 1", SCHEMA).filter, batch=BATCH),
    "Predicate.matches": lambda w: _call(sl.parse_predicate("id = 1", SCHEMA).matches, batch=BATCH),
    "matches_each": lambda w: _call(
        sl.matches_each, predicates=[sl.parse_predicate("id = 1", SCHEMA)], batch=BATCH
    ),
    "parse_predicate": lambda w: _call(sl.parse_predicate, text="id = 1", schema=SCHEMA),
    "check_syntax": lambda w: _call(check_syntax, text="id = 1"),
    # Views.
    "LiveView": lambda w: _call(sl.LiveView, log=w.log, topic="events", view=Counting()),
    "LiveView.applied": lambda w: _call(w.live.applied, partition=0),
    "AsyncLiveView.wait_ready": lambda w: _call(sl.AsyncLiveView(w.live).wait_ready, timeout_s=5),
    "LiveView.close": lambda w: _call(w.live.close, save=False, timeout_s=5),
    "LiveView.committed": lambda w: _call(w.live.committed, partition=0),
    "LiveView.is_ready": lambda w: _call(w.live.is_ready, partition=0),
    "LiveView.partition_of": lambda w: _call(w.live.partition_of, key="a"),
    "LiveView.publish": lambda w: _call(w.live.publish, value=sl.Event("k", 1), timeout_s=5),
    "AsyncLiveView.publish": lambda w: _call(
        sl.AsyncLiveView(w.live).publish, value=sl.Event("k", 1), timeout_s=5
    ),
    "AsyncLiveView.wait_applied": lambda w: _call(
        sl.AsyncLiveView(w.live).wait_applied, partition=0, offset=0, timeout_s=1
    ),
    "LiveView.read": lambda w: _call(w.live.read, partition=0, query=lambda state: state[0]),
    "LiveView.rebuild": lambda w: _call(w.live.rebuild, partitions=[0]),
    "LiveView.reconcile": lambda w: _call(w.live.reconcile, partitions=[0]),
    "LiveView.wait_applied": lambda w: _call(
        w.live.wait_applied, partition=0, offset=0, timeout_s=1
    ),
    "LiveView.wait_ready": lambda w: _call(w.live.wait_ready, timeout_s=5),
    "SavedView.state": lambda w: _call(sl.load_snapshot(w.saved, Saved()).state, partition=0),
    "load_snapshot": lambda w: _call(sl.load_snapshot, path=w.saved, view=Saved()),
    # Tiering.
    "SegmentCatalogue": lambda w: _call(tiering.SegmentCatalogue, log=w.log, partitions=1),
    "SegmentCatalogue.check_is_of": lambda w: _call(w.catalogue.check_is_of, log=w.log),
    "SegmentCatalogue.close": lambda w: _call(w.catalogue.close, save=False),
    "SegmentCatalogue.committed": lambda w: _call(w.catalogue.committed, partition=0),
    "SegmentCatalogue.follow_all": lambda w: _call(w.catalogue.follow_all, timeout_s=5),
    "SegmentCatalogue.reconcile": lambda w: _call(w.catalogue.reconcile, partitions=[0]),
    "SegmentCatalogue.refresh": lambda w: _call(w.catalogue.refresh, timeout_s=5),
    "SegmentCatalogue.find": lambda w: _call(w.catalogue.find, place=w.copied, epoch=0, offset=0),
    "SegmentCatalogue.follow": lambda w: _call(w.catalogue.follow, places=[w.copied], timeout_s=5),
    **_asking_catalogue("highest_copied_offset", "highest_readable_offset", epoch=0),
    **_asking_catalogue("current", "deletion", "merged", "partition_of", "segments"),
    "SegmentCatalogue.rebuild": lambda w: _call(w.catalogue.rebuild, partitions=[0]),
    "TieringWorker": lambda w: _call(
        tiering.TieringWorker, log=w.log, topics=["events"], store=w.cold
    ),
    "compact": lambda w: _call(tiering.compact, log=w.log, topic="events", store=w.cold),
    "open_store": lambda w: _call(tiering.open_store, url=w.cold),
    "sweep": lambda w: _call(tiering.sweep, log=w.log, store=w.cold),
    "tier": lambda w: _call(tiering.tier, log=w.log, topic="events", store=w.cold),
    # Triggers.
    "Triggers": lambda w: _call(sl.Triggers, log=w.log),
    "Triggers.on": lambda w: _call(lambda **each: w.runner.on(**each)(_handler), topic="events"),
    "Triggers.request_stop": lambda w: _call(w.runner.request_stop, timeout_s=0),
    "Triggers.stop": lambda w: _call(w.runner.stop, timeout_s=0),
    "on": lambda w: _call(_mark, topic="events", name="n"),
    "backoff": lambda w: _call(triggers.backoff),
    "dead_letters": lambda w: _call(triggers.dead_letters, log=w.log, topic="events"),
    "attempts": lambda w: _call(triggers.attempts, log=w.log, topic="events", offset=0),
    "redrive": lambda w: _call(triggers.redrive, log=w.log, topic="events"),
    "discard": lambda w: _call(triggers.discard, log=w.log, topic="events"),
    # Spark, as far as it needs no session.
    "jobs.audit": lambda w: _call(jobs.audit, spark=_NO_SESSION, url=w.url),
    "jobs.backfill": lambda w: _call(
        jobs.backfill,
        spark=_NO_SESSION,
        files=w.folder,
        url=w.url,
        topic="events",
        checkpoint=f"{w.folder}/done",
    ),
    "jobs.derive": lambda w: _call(
        jobs.derive,
        spark=_NO_SESSION,
        url=w.url,
        topic="events",
        target="other",
        checkpoint=f"{w.folder}/done",
    ),
    "jobs.export": lambda w: _call(
        jobs.export, spark=_NO_SESSION, url=w.url, topic="events", folder=f"{w.folder}/out"
    ),
    "jobs.rebuild": lambda w: _call(
        jobs.rebuild,
        spark=_NO_SESSION,
        url=w.url,
        topic="events",
        view=Saved(),
        snapshot=f"{w.folder}/rebuilt",
    ),
    "jobs.snapshot": lambda w: _call(
        jobs.snapshot, spark=_NO_SESSION, url=w.url, topic="events", folder=f"{w.folder}/out"
    ),
    "jobs.tier": lambda w: _call(
        jobs.tier, spark=_NO_SESSION, url=w.url, topic="events", store=w.cold
    ),
    "jobs.load_covered": lambda w: _call(jobs.load_covered, folder=f"{w.folder}/none"),
    "pipelines.init": lambda w: _call(pipelines.init, folder=f"{w.folder}/shop"),
    "pipelines.run": lambda w: _call(pipelines.run, folder=f"{w.folder}/none"),
    "spark.find_java": lambda w: _call(spark.find_java, environment={}),
    "spark.finish_writes": lambda w: _call(spark.finish_writes, url=f"file:{w.folder}/none"),
    # Doubles for users' own tests.
    "FakeClock": lambda w: _call(FakeClock),
    "FakeClock.advance": lambda w: _call(FakeClock().advance, seconds=1),
    "FakeClock.set_now_us": lambda w: _call(FakeClock().set_now_us, now_us=0),
}

COMPONENTS = frozenset(
    (
        *("log", "clock", "io", "broker", "view", "catalogue", "wake", "live", "query", "progress"),
        *("default", "connection", "spark"),
    )
)
"""Parameters that take a working part, or the caller's own function: not a value to check."""

COMPONENTS_OF = {"LiveView": frozenset(("snapshot",)), "SegmentCatalogue": frozenset(("snapshot",))}
