"""What a user writes: how records become a state."""

import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from strandline.log import Value
from strandline.values import InvalidError, Record
from strandline.values.prompt import prompt_text

StateT = TypeVar("StateT")


class View(ABC, Generic[StateT]):
    """Folds the records of a partition into a state; each partition has its own.

    `apply` and `initial` depend on nothing but their arguments, so that a replay gives
    the same state. They run on one thread. A view with `encode` and `decode` can be
    snapshotted; raise `version` whenever the meaning of a state changes, and what was
    stored under another version is replayed.
    """

    version: ClassVar[int] = 1
    where: ClassVar[str] = ""
    """A predicate (`docs/reference/predicates.md`): other records are passed over.

    Of batches come the rows that match. `current_timestamp` in it is the time at which the
    topic was created, so that a replay gives the same state. A record on which it fails is
    poison. What was stored under another text is replayed.
    """

    @abstractmethod
    def initial(self, partition: int) -> StateT:
        """Return the state of a partition without records, an object that `apply` changes."""

    @abstractmethod
    def apply(self, state: StateT, record: Record) -> Any:
        """Change `state` by one record; what is returned goes to the publisher.

        RefusedError, raised before anything was changed, passes the record over. Any
        other error is poison.
        """

    def check(self, state: StateT, value: Value) -> None:
        """Raise RefusedError if `value` is not to be published; `state` is not changed.

        Called by `publish` for a ready partition, before the append. What was checked
        may have changed when the record is applied, so `apply` checks again.
        """

    def encode(self, state: StateT) -> bytes:
        """Return the state as bytes, for a snapshot; equal bytes for equal states."""
        raise InvalidError("this view has no encode", view=self.name, state=type(state).__name__)

    def decode(self, stored: bytes) -> StateT:
        """Return the state that `encode` was given. Whatever it raises means replay."""
        raise InvalidError("this view has no decode", view=self.name, size_bytes=len(stored))

    def __repr__(self) -> str:
        return prompt_text("View", self.name, version=self.version)

    @property
    def name(self) -> str:
        """What a snapshot is filed under."""
        return type(self).__qualname__

    @property
    def has_snapshots(self) -> bool:
        """Whether `encode` and `decode` are there."""
        kind = type(self)
        return kind.encode is not View.encode and kind.decode is not View.decode


def check_view(view: object) -> None:
    """Raise InvalidError if it is not a view, or one whose `apply` would never run."""
    if not isinstance(view, View):
        kind = view.__qualname__ if isinstance(view, type) else "MyView"
        raise InvalidError(f"a view is an object of a View, write {kind}()", view=repr(view))
    for name in ("initial", "apply", "check", "encode", "decode"):
        if inspect.iscoroutinefunction(getattr(view, name)):
            raise InvalidError("a view is folded on a thread, write this without async", name=name)
