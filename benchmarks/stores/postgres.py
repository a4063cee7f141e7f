"""A PostgreSQL server for the length of a run, our log on it, and a table without us."""

import atexit
import threading
from collections.abc import Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import psycopg

import strandline as sl
from benchmarks.events import Sample
from benchmarks.stores.ours import OurLog
from strandline.values import Durability
from tests.stores.postgres.server import PostgresServer

NUMBERS = count()


@cache
def server() -> PostgresServer:
    """The server of the run."""
    # On a disk, since what it costs to be durable is measured; the path of a socket is short.
    started = PostgresServer(inside=Path("/tmp"))  # noqa: S108 - The folder has its own name.
    atexit.register(started.close)
    return started


def our_log(path: Path, durability: Durability) -> OurLog:
    """Open a new log on the server."""
    del path
    return OurLog(sl.open(server().url(f"log{next(NUMBERS)}")), durability)


class BareTable:
    """Rows in a table, with psycopg and no log: a connection for each thread."""

    def __init__(self, path: Path, durability: Durability) -> None:
        del path, durability
        self._local = threading.local()
        self._all: list[psycopg.Connection[Any]] = []
        self._table = f"events{next(NUMBERS)}"
        self._connection().execute(
            f"CREATE TABLE {self._table} (id bigserial PRIMARY KEY, kind text, key text,"
            " payload bytea, headers bytea, occurred_at_us bigint)"
        )
        self._insert: Any = (
            f"INSERT INTO {self._table} (kind, key, payload, headers, occurred_at_us)"  # noqa: S608 - Ours.
            " VALUES (%s, %s, %s, %s, %s)"
        )
        self._copy: Any = (
            f"COPY {self._table} (kind, key, payload, headers, occurred_at_us) FROM STDIN"
        )

    def _connection(self) -> "psycopg.Connection[Any]":
        if not hasattr(self._local, "connection"):
            self._local.connection = psycopg.connect(server().url(), autocommit=True)
            self._all.append(self._local.connection)
        connection: psycopg.Connection[Any] = self._local.connection
        return connection

    def append(self, sample: Sample) -> None:
        self._connection().execute(self._insert, _row(sample))

    @property
    def name(self) -> str:
        """Where a reader in another process finds it: a URL and the table."""
        return f"{server().url()} {self._table}"

    def append_and_notify(self, sample: Sample) -> None:
        """Append a row, and wake its readers with the commit."""
        connection = self._connection()
        with connection.pipeline(), connection.transaction():
            connection.execute(self._insert, _row(sample))
            connection.execute("SELECT pg_notify(%s, '')", (self._table,))

    def encoded(self, samples: Sequence[Sample]) -> list[Any]:
        return [_row(sample) for sample in samples]

    def append_encoded(self, events: list[Any]) -> None:
        with self._connection().cursor().copy(self._copy) as copy:
            for row in events:
                copy.write_row(row)

    def close(self) -> None:
        for connection in self._all:
            connection.close()


def _row(sample: Sample) -> tuple[Any, ...]:
    kind, key, payload, headers, occurred_at_us = sample
    return kind, key, msgspec.json.encode(payload), msgspec.json.encode(headers), occurred_at_us
