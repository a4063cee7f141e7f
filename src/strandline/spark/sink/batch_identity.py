"""The query and batch of a task, which Spark passes under its own names."""

from typing import NamedTuple

from pyspark import TaskContext

from strandline.values import InvalidError

QUERY = "sql.streaming.queryId"
BATCH = "streaming.sql.batchId"


class BatchIdentity(NamedTuple):
    """The id under which a batch is recorded."""

    app: str
    version: int


def streaming_identity(app: str | None) -> BatchIdentity:
    """Return the running task's batch; `app` replaces the query's id."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(QUERY)
    batch = None if context is None else context.getLocalProperty(BATCH)
    if query is None or batch is None:
        raise InvalidError(
            "Spark does not pass which batch this is, so it cannot be written exactly once; "
            "write in foreachBatch with the options txnAppId and txnVersion instead"
        )
    return BatchIdentity(app or query, int(batch))


def task_number() -> int:
    """Return the number of this task; a repeated attempt has the same number."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
