"""The transaction log of a Delta table: read to its end, and added to by one commit at a time.

deltalake commits additions, but neither removals of named files nor both with a change of the
schema in one commit. So the few actions that a tier needs are written here, as the protocol
has them, and read back with deltalake by the tests. See design 0103.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import quote, unquote

import msgspec
import pyarrow as pa

from strandline.tiering.arrow_parts import parquet
from strandline.tiering.delta.schema import APART, TableColumns
from strandline.tiering.object_store import ObjectStore
from strandline.values import CorruptError, InvalidError

FOLDER: Final = "_delta_log"
FEATURE: Final = "strandlineTier"
"""A feature that other writers do not know: the protocol has them refuse to write."""
_CHECKPOINTED: Final = ("add", "remove", "metaData", "protocol", "txn")


class CommitStore(ObjectStore, Protocol):
    """An object store that a transaction log can lie in."""

    def put_new(self, name: str, content: bytes) -> bool:
        """Put an object unless there is one of the name; False then. Durable if True."""


def commit_store(store: ObjectStore) -> CommitStore:
    """Return the store; InvalidError if it cannot create an object only where there is none."""
    if callable(getattr(store, "put_new", None)):
        return store  # type: ignore[return-value] # As it says.
    raise InvalidError("a Delta table needs a store with put_new", store=store.url)


@dataclass(slots=True)
class Snapshot:
    """A table as its log has it at one version; -1 if there is none."""

    version: int = -1
    #: The actions that added the files that it has, by path.
    files: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    columns: TableColumns = field(default_factory=TableColumns)
    features: frozenset[str] = frozenset()
    #: Of each application, the version of its last transaction.
    transactions: dict[str, int] = field(default_factory=dict)
    #: The last commits that no application of ours has made.
    foreign: list[int] = field(default_factory=list)

    def take(self, action: Mapping[str, Any]) -> None:
        """Change it by one action."""
        if added := action.get("add"):
            self.files[unquote(added["path"])] = added
        elif removed := action.get("remove"):
            self.files.pop(unquote(removed["path"]), None)
        elif metadata := action.get("metaData"):
            # As a checkpoint has it, it is pairs.
            properties = dict(metadata.get("configuration") or {})
            apart = frozenset(properties.get(APART, "").split())
            self.columns = TableColumns(metadata["schemaString"], apart)
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
        actions = list(_actions(content, self._name(version)))
        for action in actions:
            found.take(action)
        is_ours = any(
            (action.get("txn") or {}).get("appId") == self._application for action in actions
        )
        found.foreign = [] if is_ours else [*found.foreign, version]
        found.version = version

    def _checkpoint(self, found: Snapshot, names: set[str]) -> int:
        """Begin with the last checkpoint, if there is one; return which version follows."""
        pointer = self._store.get(f"{self._folder}/_last_checkpoint")
        if pointer is None:
            return 0
        version = int(msgspec.json.decode(pointer)["version"])
        name = f"{self._folder}/{version:020d}.checkpoint.parquet"
        content = self._store.get(name) if name in names else None
        if content is None:
            return 0  # In several parts, say: the commits are there as well.
        table = parquet().read_table(pa.BufferReader(content))
        for row in table.select([n for n in _CHECKPOINTED if n in table.schema.names]).to_pylist():
            for kind, action in row.items():
                if action is not None and kind != "remove":
                    found.take({kind: action})
        found.version = version
        return version + 1

    def commit(self, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
        """Write one commit, whole; False if another process has written this version."""
        lines = [msgspec.json.encode(each) for each in actions]
        return self._store.put_new(self._name(version), b"\n".join(lines) + b"\n")

    def _name(self, version: int) -> str:
        return f"{self._folder}/{version:020d}.json"


def _actions(content: bytes, name: str) -> Iterator[Mapping[str, Any]]:
    try:
        for line in content.splitlines():
            if line.strip():
                yield msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise CorruptError(
            "this commit of a Delta table cannot be read; delete the folder, and the next run of "
            "tier with delta makes it again",
            file=name,
            position=0,
            reason=str(error),
        ) from error


def encoded_path(path: str) -> str:
    """Return the path of a file as an action has it: a URI."""
    return quote(path, safe="/=")
