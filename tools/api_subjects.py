"""Which page of the interface has which public names, in what order, and how each page begins."""

from typing import Final, NamedTuple


class Subject(NamedTuple):
    """One page: its file, its title, the text before the names, and the names."""

    file: str
    title: str
    opening: str
    names: tuple[str, ...]


SUBJECTS: Final = (
    Subject(
        "opening.md",
        "Open and copy logs",
        """\
`strandline.open` opens a log by its URL. `with` closes it; `async with` opens its async face.

| URL | where the log is | page |
|---|---|---|
| `memory:` | in this process | |
| `file:./events` | a directory of this machine | [two processes](../../howto/two-processes.md) |
| `sqlite:events.db` | an SQLite file | [outbox](../../howto/outbox.md) |
| `postgresql://host/name` | a database | [PostgreSQL](../../howto/run-on-postgresql.md) |
| `nats://host/name` | NATS JetStream | [JetStream](../../howto/run-on-jetstream.md) |
| `kafka://host:port/prefix` | topics of Kafka | [Kafka](../../howto/run-on-kafka.md) |
| `http://host:port` | `strandline serve` | [serve a log](../../howto/serve-a-log.md) |

Each kind of store has options of its own, by name:

| option | stores | meaning |
|---|---|---|
| `exclusive` | `file:` | keep the locks of partitions: faster, for one writer |
| `take_over` | `file:` | fence another process that holds a partition, instead of waiting for it |
| `compression` | `file:` | `"zstd"` or `"lz4"`: compress frames of columns |
| `schema` | `postgresql:` | the schema of the tables |
| `lock_timeout_s` | `postgresql:` | how long an append waits for a partition |
| `connect_timeout_s` | `postgresql:` `nats:` `kafka:` | how long opening waits for the server |
| `patience_s` | `nats:` `kafka:` `http:` | how long a call tries again while no server answers |
| `request_timeout_s` | `http:` | how long one request may take |
| `replicas` | `nats:` `kafka:` | how many servers keep each record, of a new log |
| `sync` | `kafka:` | `"always"`: brokers sync each message; `"broker"`: when they choose |
| `client_file` | `kafka:` | a file with further settings of the client |
| `mechanism` | `kafka:` | how a user signs in, such as `"SCRAM-SHA-512"` |
| `system_url` | `nats:` | a user of the system account, to ask how the servers sync |
| `token` | `http:` | what lets you in; by default STRANDLINE_TOKEN |
| `tls` | `kafka:` | encrypt, and check the broker with the system's certificates |
| `tls_ca` | `nats:` `kafka:` `https:` | a file with the CA of the server (or STRANDLINE_TLS_CA) |
| `tls_cert`, `tls_key` | `nats:` `kafka:` | files with a certificate and key of your own |

```python
import strandline as sl

with sl.open("file:./events") as log:
    log.create_topic("orders")
    log.append("orders", sl.Event("order.created", {"id": 17}))

sl.backup("file:./copy", url="file:./events")
with sl.open("file:./copy", mode="read") as log:
    assert [topic.name for topic in log.topics()] == ["orders"]
```""",
        (
            *("open", "describe", "Opening", "backup", "restore", "copy", "LogCopy"),
            *("install", "active", "installed", "reset"),
        ),
    ),
    Subject(
        "log.md",
        "The log",
        """\
What an open log can do. [What a log promises](../contract.md) has the same rules in the order of
the ideas; a [subscription](subscriptions.md), a [consumer](consumers.md) and a [view](views.md)
have pages of their own.

```python
import strandline as sl

log = sl.open("memory:")
log.create_topic("orders", partitions=2)
first = log.append("orders", sl.Event("order.created", {"id": 17}, key="c-9"))
again = log.append_many("orders", [sl.Event("order.paid", {"id": 17}, key="c-9")])

assert (first.offset, again[0].offset) == (0, 1)
kinds = [record.kind for record in log.read("orders", first.partition, start=0)]
assert kinds == ["order.created", "order.paid"]
```""",
        (
            *("Log", "Receipt", "Durability", "AsyncLog", "AsyncReceipt", "AsyncReceipts"),
            *("AsyncTransaction", "AsyncConnection", "AsyncCursor", "AsyncWatch"),
        ),
    ),
    Subject(
        "values.md",
        "Events, records and settings",
        """\
Values are frozen and checked when they are made: one that exists can be stored.

```python
import strandline as sl

event = sl.Event("order.created", {"id": 17}, key="c-9", headers={"trace": "a1"})

assert event.payload["id"] == 17
assert event.headers["trace"] == "a1"
```""",
        (
            *("Event", "Record", "ValueKind", "as_json", "is_erased", "ErasureReport"),
            *("Quota", "QuotaUsage", "ProofHead", "ProofReport", "UNCHANGED"),
        ),
    ),
    Subject(
        "subscriptions.md",
        "Subscriptions and brokers",
        """\
A subscription reads history and then what is appended, in one loop. It stores no position: a
[consumer](consumers.md) does. See [follow a topic](../../howto/follow-a-topic.md).

```python
import strandline as sl

log = sl.open("memory:")
log.create_topic("orders")
log.append("orders", sl.Event("order.created", {"id": 17}))

with log.subscribe("orders", start=sl.EARLIEST) as orders:
    assert next(orders).payload == {"id": 17}
    log.append("orders", sl.Event("order.paid", {"id": 17}))
    assert next(orders).kind == "order.paid"
```""",
        (
            *("subscribe", "EARLIEST", "LATEST", "Subscription", "CaughtUp", "FellBehind"),
            *("AsyncSubscription", "AsyncAssignment"),
            *("Broker", "LocalBroker", "MachineBroker", "LiveSubscription"),
        ),
    ),
    Subject(
        "consumers.md",
        "Consumers and work queues",
        """\
A consumer stores in the log how far it has come: what is not acked is delivered again. Consumers
of one name share the partitions of a topic as a
[group](../../howto/share-work-between-processes.md); with `shared=True` they share its records as
a [work queue](../../howto/work-queue.md).

```python
import strandline as sl

log = sl.open("memory:")
log.create_topic("orders")
log.append("orders", sl.Event("order.created", {"id": 17}))

with log.consumer("orders", "billing") as billing:
    delivery = next(billing)
    assert delivery.record.payload == {"id": 17}
    billing.ack(delivery)
```""",
        (
            *("Consumer", "Delivery", "ConsumerProgress", "SharedConsumer"),
            *("AsyncConsumer", "AsyncSharedConsumer"),
        ),
    ),
    Subject(
        "views.md",
        "Views",
        """\
A view folds the records of a topic into a state, and knows how far it has read. See
[write a view](../../howto/write-a-view.md).

```python
import strandline as sl

log = sl.open("memory:")
log.create_topic("orders")


class Count(sl.View[list[int]]):
    def initial(self, partition):
        return [0]

    def apply(self, state, record):
        state[0] += 1


with sl.LiveView(log, "orders", Count()) as orders:
    orders.reconcile([0])
    receipt = log.append("orders", sl.Event("order.created", {"id": 17}))
    orders.wait_applied(0, receipt.offset)
    assert orders.read(0, lambda state: state[0]) == 1
```""",
        (
            *("View", "LiveView", "PendingView", "SavedView", "load_snapshot"),
            *("AsyncLiveView", "AsyncPendingView"),
        ),
    ),
    Subject(
        "typed.md",
        "Typed topics, tenants and predicates",
        """\
A scope is what one tenant may do with a log; its topics may have an Arrow schema, which each
batch is checked against. See [typed topics](../../howto/typed-topics.md),
[tenants](../../howto/tenants.md) and [predicates](../predicates.md).

```python
import pyarrow as pa

import strandline as sl

log = sl.open("memory:")
shop = log.scope("shop")
sales = pa.schema([("id", pa.int64()), ("amount", pa.int64())])
shop.register("sales", sales)
shop.publish("sales", pa.record_batch([[1, 2], [50, 200]], schema=sales))

with shop.subscribe("sales", where="amount > 100", start=sl.EARLIEST) as large:
    assert next(large).batch.column("id").to_pylist() == [2]
```""",
        (
            *("Scope", "TopicDefinition", "ScopedSubscription", "DeliveredBatch"),
            *("Predicate", "parse_predicate", "matches_each"),
            *("AsyncScope", "AsyncScopedSubscription"),
        ),
    ),
    Subject(
        "scans.md",
        "Scans",
        """\
A scan is a topic as a table, for DuckDB, polars and Arrow. See
[query with SQL](../../howto/query-with-sql.md).

```python
import strandline as sl

log = sl.open("memory:")
log.create_topic("orders")
log.append_many("orders", [sl.Event("order.created", {"id": number}) for number in range(3)])

assert log.scan("orders").to_table(columns=["_offset", "kind"]).num_rows == 3
```""",
        ("scan", "Scan", "AsyncBatches"),
    ),
)
