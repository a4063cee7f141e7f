"""The log: topics of partitions of records, and every rule that holds for all stores.

Promises: what `contract` says, for any store that implements the port of `store`.

Knows nothing of how a store keeps bytes. Subscriptions, views and copies are rooms above, which
use only what is exported here.
"""

from strandline.log.async_log import AsyncLog
from strandline.log.async_reading import AsyncBatches, AsyncWatch
from strandline.log.async_receipts import AsyncReceipt, AsyncReceipts
from strandline.log.async_transaction import AsyncConnection, AsyncCursor, AsyncTransaction
from strandline.log.broker import Broker, LiveSubscription
from strandline.log.chain import Chain
from strandline.log.claims import LocalClaims
from strandline.log.contract import (
    LogConsumers,
    LogReader,
    LogTopics,
    LogTransactions,
    LogWriter,
)
from strandline.log.decide import PartitionHead
from strandline.log.erased import is_erased
from strandline.log.event_rows import EventRows
from strandline.log.history import Body, Damage, EventBody, History, Kept, Piece
from strandline.log.identities import Identities
from strandline.log.log import Log
from strandline.log.loop_thread import LoopThread
from strandline.log.metrics import LogMetrics, StoreMetrics, TopicMetrics
from strandline.log.off_loop import Opening
from strandline.log.open_state import OpenState
from strandline.log.parts import (
    LogParts,
    check_blocking,
    check_log,
    count_partitions,
    has_holes,
    parts_of,
)
from strandline.log.ranges import ReadLimits, ReadRange, check_range
from strandline.log.receipts import Receipt, Receipts
from strandline.log.record_lists import ListReads, RecordList, admit
from strandline.log.results import Batches, Claim, Hint, TopicName, Value, Watch
from strandline.log.selecting_store import (
    EvaluatingStore,
    PredicateText,
    RecordBound,
    ScanText,
    SelectedPage,
    SelectingStore,
)
from strandline.log.settled import Settled
from strandline.log.store import (
    AppendRequest,
    Capabilities,
    DurableStore,
    Erased,
    ErasingStore,
    MeasuredStore,
    MovableStore,
    Outcome,
    PartitionState,
    Placement,
    Reach,
    SchemaStore,
    SegmentedStore,
    Store,
    StoredTopic,
    StoreTier,
    TransactionalStore,
    Trimmed,
    dropped,
)
from strandline.log.stored_records import StoredRecord
from strandline.log.terms import AppendTerms
from strandline.log.topic_table import TableTopic, TopicTable
from strandline.log.topics import check_new_topic
from strandline.log.watches import ChangeSource, Watches

__all__ = [
    "AppendRequest",
    "AppendTerms",
    "AsyncBatches",
    "AsyncConnection",
    "AsyncCursor",
    "AsyncLog",
    "AsyncReceipt",
    "AsyncReceipts",
    "AsyncTransaction",
    "AsyncWatch",
    "Batches",
    "Body",
    "Broker",
    "Capabilities",
    "Chain",
    "ChangeSource",
    "Claim",
    "Damage",
    "DurableStore",
    "Erased",
    "ErasingStore",
    "EvaluatingStore",
    "EventBody",
    "EventRows",
    "Hint",
    "History",
    "Identities",
    "Kept",
    "ListReads",
    "LiveSubscription",
    "LocalClaims",
    "Log",
    "LogConsumers",
    "LogMetrics",
    "LogParts",
    "LogReader",
    "LogTopics",
    "LogTransactions",
    "LogWriter",
    "LoopThread",
    "MeasuredStore",
    "MovableStore",
    "OpenState",
    "Opening",
    "Outcome",
    "PartitionHead",
    "PartitionState",
    "Piece",
    "Placement",
    "PredicateText",
    "Reach",
    "ReadLimits",
    "ReadRange",
    "Receipt",
    "Receipts",
    "RecordBound",
    "RecordList",
    "ScanText",
    "SchemaStore",
    "SegmentedStore",
    "SelectedPage",
    "SelectingStore",
    "Settled",
    "Store",
    "StoreMetrics",
    "StoreTier",
    "StoredRecord",
    "StoredTopic",
    "TableTopic",
    "TopicMetrics",
    "TopicName",
    "TopicTable",
    "TransactionalStore",
    "Trimmed",
    "Value",
    "Watch",
    "Watches",
    "admit",
    "check_blocking",
    "check_log",
    "check_new_topic",
    "check_range",
    "count_partitions",
    "dropped",
    "has_holes",
    "is_erased",
    "parts_of",
]
