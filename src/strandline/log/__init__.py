"""The log: topics of partitions of records, and every rule that holds for all stores.

Promises: what `contract` says, for any store that implements the port of `store`.

Does not know where bytes lie; does not subscribe, fold or copy: the rooms above do so,
and know only what is exported here.
"""

from strandline.log.broker import Broker, LiveSubscription
from strandline.log.contract import (
    LogConsumers,
    LogReader,
    LogTopics,
    LogTransactions,
    LogWriter,
)
from strandline.log.event_rows import EventRows
from strandline.log.history import Body, Damage, EventBody, History, Kept, Piece
from strandline.log.log import Log
from strandline.log.parts import LogParts, parts_of
from strandline.log.ranges import ReadLimits, ReadRange
from strandline.log.receipts import Receipt, Receipts
from strandline.log.results import Batches, Claim, Hint, TopicName, Value, Watch
from strandline.log.store import (
    AppendRequest,
    Capabilities,
    DroppedError,
    Outcome,
    PartitionState,
    Placement,
    Reach,
    Store,
    StoredTopic,
    Tier,
)
from strandline.log.terms import AppendTerms

__all__ = [
    "AppendRequest",
    "AppendTerms",
    "Batches",
    "Body",
    "Broker",
    "Capabilities",
    "Claim",
    "Damage",
    "DroppedError",
    "EventBody",
    "EventRows",
    "Hint",
    "History",
    "Kept",
    "LiveSubscription",
    "Log",
    "LogConsumers",
    "LogParts",
    "LogReader",
    "LogTopics",
    "LogTransactions",
    "LogWriter",
    "Outcome",
    "PartitionState",
    "Piece",
    "Placement",
    "Reach",
    "ReadLimits",
    "ReadRange",
    "Receipt",
    "Receipts",
    "Store",
    "StoredTopic",
    "Tier",
    "TopicName",
    "Value",
    "Watch",
    "parts_of",
]
