"""Detects whether the database file was replaced by a copy."""

import sqlite3

from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.partition_row import (
    add_epoch,
    load_epochs,
    load_partition,
    store_partitions,
)
from strandline.stores.sqlite.topics import load_log, store_log
from strandline.values import Epoch, Offset


class Lineage:
    """Begins new epochs in a file that replaced another one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.is_checked: bool = False

    def check(self, connection: sqlite3.Connection) -> None:
        """Compare once, in a transaction that writes."""
        if self.is_checked:
            return
        row = load_log(connection, self._database.path)
        present = self._database.inode()
        if row.inode != present:
            self._begin_epochs(connection)
            store_log(connection, row._replace(inode=present))
            # Committed separately: the transaction that follows may be rolled back.
            connection.execute("COMMIT")
            connection.execute("BEGIN IMMEDIATE")
        self.is_checked = True

    def _begin_epochs(self, connection: sqlite3.Connection) -> None:
        path = self._database.path
        slots = connection.execute("SELECT slot FROM strandline_partitions").fetchall()
        for (slot,) in slots:
            head = load_partition(connection, path, slot)
            assert head is not None
            number = load_epochs(connection, path, slot)[-1].number + 1
            epoch = Epoch(number, self._database.clock.new_id(), Offset(head.high))
            add_epoch(connection, slot, epoch)
            head.epochs = number + 1
            store_partitions(connection, [head])
