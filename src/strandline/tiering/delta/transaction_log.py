"""The transaction log of a Delta table: read to its end, and added to by one commit at a time.

deltalake commits additions, but neither removals of named files nor both with a change of the
schema in one commit. So the few actions that a tier needs are written here, as the protocol
has them, and read back with deltalake by the tests. See design 0103.
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
from strandline.tiering.delta.schema import APART, TableColumns
from strandline.tiering.object_store import ObjectStore
from strandline.values import CorruptError, InvalidError

FOLDER: Final = "_delta_log"
FEATURE: Final = "strandlineTier"
"""A feature that other writers do not know: the protocol has them refuse to write."""
_CHECKPOINT: Final = re.compile(r"/(\d{20})\.checkpoint\.parquet")
#: Of a file that is damaged, or that another program has written with other actions.
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
        """Begin with the last checkpoint, if there is one; return which version follows.

        It is known from the list: `_last_checkpoint` only spares readers to list the folder.
        One in several parts is not used: the commits are there as well.
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
        """Write one commit, whole; False if another process has written this version."""
        lines = [msgspec.json.encode(each) for each in actions]
        return self._store.put_new(self._name(version), b"\n".join(lines) + b"\n")

    def _name(self, version: int) -> str:
        return f"{self._folder}/{version:020d}.json"

    @contextmanager
    def _readable(self, name: str) -> Iterator[None]:
        """Raise CorruptError, with what to do, for what is not what a Delta table has."""
        try:
            yield
        except _UNREADABLE as error:
            raise CorruptError(
                f"this file of a Delta table cannot be read; delete the folder {FOLDER}, and the "
                "next run of tier with delta makes it again; the objects beside it stay, they are "
                "the tier",
                file=name,
                position=0,
                reason=str(error),
            ) from error


def encoded_path(path: str) -> str:
    """Return the path of a file as an action has it: a URI."""
    return quote(path, safe="/=")
