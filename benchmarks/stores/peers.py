"""The three embedded stores that a user would most likely take instead."""

from collections.abc import Mapping

from benchmarks.stores.lmdb import Lmdb
from benchmarks.stores.rocksdb import RocksDb
from benchmarks.stores.sqlite import SqliteTable
from benchmarks.stores.store import ReplayOpening

PEERS: Mapping[str, ReplayOpening] = {"rocksdb": RocksDb, "lmdb": Lmdb, "sqlite": SqliteTable}
