"""The open tables over a topic's objects: which are wanted, and how they follow the catalogue."""

from typing import Final, NamedTuple

from strandline.clock import Clock
from strandline.log import Log
from strandline.tiering import delta as delta_table
from strandline.tiering import iceberg as iceberg_table
from strandline.tiering.delta.transaction_log import FOLDER
from strandline.tiering.iceberg.place import TableName, recorded_name
from strandline.tiering.object_store import ObjectStore
from strandline.tiering.routing import topic_folder
from strandline.tiering.table_files import TableEnd, TableFiles
from strandline.values import Topic
from strandline.values.arguments import check_flag


class Tables(NamedTuple):
    """The tables of a topic: those that a run makes if they do not exist, or those that exist."""

    delta: bool = False
    iceberg: TableName | None = None

    @classmethod
    def of(cls, delta: object, iceberg: str | None) -> "Tables":
        """Check the options of a run; InvalidError, too, if a library is missing."""
        if check_flag("delta", delta):
            delta_table.require_deltalake()
        if iceberg is not None:
            iceberg_table.require_pyiceberg()
        return cls(bool(delta), None if iceberg is None else iceberg_table.check_name(iceberg))

    @classmethod
    def existing(cls, store: ObjectStore, topic: Topic) -> "Tables":
        """Return which tables the objects of a topic are."""
        return cls(delta_table.has_table(store, topic), recorded_name(store, topic))

    def check_place(self, store: ObjectStore, topic: Topic) -> None:
        """Raise InvalidError or UnavailableError if one of the tables cannot be made."""
        if self.iceberg is not None:
            iceberg_table.check_place(store, topic, self.iceberg)


NO_TABLES: Final = Tables()


def publish_tables(
    log: Log, files: TableFiles, clock: Clock, existing: Tables, wanted: Tables = NO_TABLES
) -> TableEnd:
    """Update each table of a topic, those that are wanted and those that exist.

    Returns where a table ends: neither the copies that are lost, nor the first one of a
    partition that does not fit, nor what follows them is in a table.
    """
    ends = []
    if wanted.delta or existing.delta:
        delta_table.publish(log, files, clock)
        ends.append(files.end)
    if wanted.iceberg is not None or existing.iceberg is not None:
        iceberg_table.publish(log, files, clock, existing.iceberg, wanted.iceberg)
        ends.append(files.end)
    lost = {each.name: each for end in ends for each in end.lost}
    return TableEnd(list(lost.values()), next((end.unfit for end in ends if end.unfit), None))


def drop_tables(store: ObjectStore, topic: Topic) -> None:
    """Remove the tables of a dropped topic."""
    for name in store.list(f"{topic_folder(topic)}/{FOLDER}"):
        store.delete(name)
    iceberg_table.drop(store, topic)
