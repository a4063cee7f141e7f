"""The writers that Spark calls, in its tasks and for its driver, each in its own process."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from strandline.clock import SystemClock
from strandline.opening import open_log
from strandline.spark.garbage_collection import collector_paused, freeze_imports
from strandline.spark.sink.batch_identity import BatchIdentity, streaming_identity, task_number
from strandline.spark.sink.committing import JOB_PREFIX, abort, commit, sweep
from strandline.spark.sink.rows import TOPIC, topic_rows
from strandline.spark.sink.settings import SinkSettings
from strandline.spark.sink.staging import Staged, Stager
from strandline.spark.worker_process import acknowledge_at_once
from strandline.values import InvalidError, Mode


@dataclass(frozen=True)
class StagedMessage(WriterCommitMessage):
    """What a task reports to the committing driver."""

    staged: Staged


Messages = Sequence[WriterCommitMessage | None]


class BatchWriter(DataSourceArrowWriter):
    """Writes a frame; without txnAppId, under an id that is never used again."""

    def __init__(self, settings: SinkSettings, schema: StructType) -> None:
        self.settings = settings
        app, version = settings.app, settings.version
        if app is None or version is None:
            app, version = f"{JOB_PREFIX}{SystemClock().new_id()}", 0
        self.identity: Final = BatchIdentity(app, version)
        _prepare(settings, schema)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        acknowledge_at_once()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        return _staged(self.settings, self.identity, iterator)

    def commit(self, messages: Messages) -> None:
        _commit(self.settings, self.identity, messages)

    def abort(self, messages: Messages) -> None:
        _abort(self.settings, messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a query. Created for each batch, so it keeps no state."""

    def __init__(self, settings: SinkSettings) -> None:
        self.settings = settings

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        acknowledge_at_once()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        return _staged(self.settings, streaming_identity(self.settings.app), iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        found = _staged_by(messages)
        apps = {each.app for each in found}
        if apps:
            (app,) = apps
            _commit(self.settings, BatchIdentity(app, batchId), messages)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: ARG002, N803
        _abort(self.settings, messages)


def _prepare(settings: SinkSettings, schema: StructType) -> None:
    """Raise InvalidError before anything runs, if the frame cannot be written; sweep."""
    names = schema.fieldNames()
    with open_log(settings.url, mode=Mode.READ) as log:
        if settings.topic is not None:
            topic_rows(log, settings.topic, settings.tenant).check(names)
        elif TOPIC not in names:
            raise InvalidError("name the topic with the option topic, or in a column of that name")
        sweep(settings.place.folders(log.id))
    freeze_imports()


def _staged(
    settings: SinkSettings, identity: BatchIdentity, batches: Iterator[pa.RecordBatch]
) -> StagedMessage:
    with collector_paused(), open_log(settings.url, mode=Mode.READ) as log:
        stager = Stager(
            log,
            settings.place.folder(log.id, identity.app),
            topic=settings.topic,
            tenant=settings.tenant,
            version=identity.version,
            task=task_number(),
            event_kind=settings.event_kind,
            is_upsert=settings.is_upsert,
        )
        staged = stager.stage(batches)
    freeze_imports()
    return StagedMessage(staged)


def _commit(settings: SinkSettings, identity: BatchIdentity, messages: Messages) -> None:
    with collector_paused(), open_log(settings.url) as log:
        folder = settings.place.folder(log.id, identity.app)
        commit(
            *(log, folder, identity.version, _staged_by(messages)),
            tenant=settings.tenant,
            durability=settings.durability,
        )
    freeze_imports()


def _abort(settings: SinkSettings, messages: Messages) -> None:
    staged = _staged_by(messages)
    apps = {each.app for each in staged}
    if apps:
        with open_log(settings.url, mode=Mode.READ) as log:
            for app in apps:
                abort(settings.place.folder(log.id, app), staged)


def _staged_by(messages: Messages) -> list[Staged]:
    """Return what the tasks have staged; a failed task sends no message."""
    return [each.staged for each in messages if isinstance(each, StagedMessage)]
