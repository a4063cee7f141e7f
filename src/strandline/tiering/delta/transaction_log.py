"""The transaction log of a Delta table: reads it to its end, and adds one commit at a time.

deltalake commits additions, but neither removals of named files nor both with a schema change
in one commit. So the few actions that a tier needs are written here according to the
protocol, and tests read them back with deltalake. See design 0103.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import quote, unquote

import msgspec
import pyarrow as pa

from strandline.tiering.arrow_parts import parquet
from strandline.tiering.delta.schema import TableColumns
from strandline.tiering.object_store import ObjectStore
from strandline.values import CorruptError, InvalidError

FOLDER: Final = "_delta_log"
FEATURE: Final = "strandlineTier"
"""A feature unknown to other writers, so that the protocol makes them refuse to write."""
_CHECKPOINT: Final = re.compile(r"/(\d{20})\.checkpoint\.parquet")
#: Errors for a damaged file, or for another program's unknown actions.
_UNREADABLE: Final = (
    msgspec.MsgspecError,
    pa.ArrowException,
    OSError,
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
)
_CHECKPOINTED: Final = ("add", "remove", "metaData", "protocol", "txn")


class CommitStore(ObjectStore, Protocol):
    """An object store that can hold a transaction log."""

    def put_new(self, name: str, content: bytes) -> bool:
        """Write an object unless the name exists; return whether it was written. Durable if so."""


def commit_store(store: ObjectStore) -> CommitStore:
    """Return the store; InvalidError if it cannot create an object conditionally."""
    if callable(getattr(store, "put_new", None)):
        return store  # type: ignore[return-value] # It has the method.
    raise InvalidError("a Delta table needs a store with put_new", store=store.url)


@dataclass(slots=True)
class Snapshot:
    """The table at one version of its log; -1 if there is none."""

    version: int = -1
    #: The actions that added its files, by path.
    files: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    columns: TableColumns = field(default_factory=TableColumns)
    features: frozenset[str] = frozenset()
    #: The version of each application's last transaction.
    transactions: dict[str, int] = field(default_factory=dict)
    #: The latest commits by other programs.
    foreign: list[int] = field(default_factory=list)

    def take(self, action: Mapping[str, Any]) -> None:
        """Apply one action."""
        if added := action.get("add"):
            self.files[unquote(added["path"])] = added
        elif removed := action.get("remove"):
            self.files.pop(unquote(removed["path"]), None)
        elif metadata := action.get("metaData"):
            self.columns = TableColumns.of(metadata)
        elif protocol := action.get("protocol"):
            self.features = frozenset(protocol.get("writerFeatures") or ())
        elif transaction := action.get("txn"):
            self.transactions[transaction["appId"]] = transaction["version"]


class TransactionLog:
    """The log of the table in one folder of a store."""

    def __init__(self, store: CommitStore, folder: str, application: str) -> None:
        self._store = store
        self._folder = f"{folder}/{FOLDER}"
        self._application = application

    def snapshot(self) -> Snapshot:
        """Return the table as it is now."""
        names = set(self._store.list(self._folder))
        found = Snapshot()
        at = self._checkpoint(found, names)
        while (name := self._name(at)) in names:
            content = self._store.get(name)
            if content is None:
                break  # Cleaned up meanwhile, or listed too early.
            self._fold(found, at, content)
            at += 1
        return found

    def _fold(self, found: Snapshot, version: int, content: bytes) -> None:
        with self._readable(self._name(version)):
            lines = [line for line in content.splitlines() if line.strip()]
            actions = [msgspec.json.decode(line, type=dict[str, Any]) for line in lines]
            for action in actions:
                found.take(action)
        is_ours = any(
            (action.get("txn") or {}).get("appId") == self._application for action in actions
        )
        found.foreign = [] if is_ours else [*found.foreign, version]
        found.version = version

    def _checkpoint(self, found: Snapshot, names: set[str]) -> int:
        """Start from the last checkpoint, if there is one; return the next version.

        Found in the list: `_last_checkpoint` only saves readers from listing the folder. A
        multi-part checkpoint is not used, because its commits exist as well.
        """
        whole = (_CHECKPOINT.fullmatch(name.removeprefix(self._folder)) for name in names)
        version = max((int(each[1]) for each in whole if each), default=-1)
        name = f"{self._folder}/{version:020d}.checkpoint.parquet"
        content = None if version < 0 else self._store.get(name)
        if content is None:
            return 0
        with self._readable(name):
            table = parquet().read_table(pa.BufferReader(content))
            kinds = [kind for kind in _CHECKPOINTED if kind in table.schema.names]
            for row in table.select(kinds).to_pylist():
                for kind, action in row.items():
                    if action is not None and kind != "remove":
                        found.take({kind: action})
        found.version = version
        return version + 1

    def commit(self, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
        """Write one commit atomically; False if another process has written this version."""
        lines = [msgspec.json.encode(each) for each in actions]
        return self._store.put_new(self._name(version), b"\n".join(lines) + b"\n")

    def _name(self, version: int) -> str:
        return f"{self._folder}/{version:020d}.json"

    @contextmanager
    def _readable(self, name: str) -> Iterator[None]:
        """Raise CorruptError, with what to do, for an invalid file of a Delta table."""
        try:
            yield
        except _UNREADABLE as error:
            raise CorruptError(
                f"this file of a Delta table cannot be read; delete the folder {FOLDER}, and the"
                " next run of tier with delta makes it again; keep the objects beside it, they are"
                " the tier",
                file=name,
                position=0,
                reason=str(error),
            ) from error


def encoded_path(path: str) -> str:
    """Return a file's path in the form of an action: a URI."""
    return quote(path, safe="/=")
