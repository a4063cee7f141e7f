"""The class that a user implements: how records become a state."""

import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from strandline.log import Value
from strandline.values import InvalidError, Record
from strandline.values.prompt import prompt_text

StateT = TypeVar("StateT")


class View(ABC, Generic[StateT]):
    """Folds the records of a partition into a state; each partition has its own.

    `apply` and `initial` must depend only on their arguments, so that a replay gives the same
    state. They run on one thread. A view with `encode` and `decode` can be snapshotted; raise
    `version` whenever the meaning of the state changes, and states stored under another
    version are not used, but replayed.
    """

    version: ClassVar[int] = 1
    where: ClassVar[str] = ""
    """A predicate (`docs/reference/predicates.md`): other records are skipped.

    Of batches, only matching rows are applied. `current_timestamp` in it is the time at which
    the topic was created, so that a replay gives the same state. A record on which it fails is
    handled as one on which `apply` fails. States stored under another text are replayed.
    """

    @abstractmethod
    def initial(self, partition: int) -> StateT:
        """Return the state of a partition without records, a mutable object."""

    @abstractmethod
    def apply(self, state: StateT, record: Record) -> Any:
        """Change `state` by one record; the publisher gets the returned value.

        If it raises RefusedError before any change, the record is skipped. After any other
        error the record is handled according to `poison`.
        """

    def check(self, state: StateT, value: Value) -> None:
        """Raise RefusedError if `value` must not be published; must not change `state`.

        Called by `publish` for a ready partition, before the append. The state may have
        changed when the record is applied, so `apply` must check again.
        """

    def encode(self, state: StateT) -> bytes:
        """Return the state as bytes, for a snapshot; equal bytes for equal states."""
        raise InvalidError("this view has no encode", view=self.name, state=type(state).__name__)

    def decode(self, stored: bytes) -> StateT:
        """Return the state that `encode` was given. After any error the state is replayed."""
        raise InvalidError("this view has no decode", view=self.name, size_bytes=len(stored))

    def __repr__(self) -> str:
        return prompt_text("View", self.name, version=self.version)

    @property
    def name(self) -> str:
        """The name under which a snapshot is stored."""
        return type(self).__qualname__

    @property
    def has_snapshots(self) -> bool:
        """Whether the view has `encode` and `decode`."""
        kind = type(self)
        return kind.encode is not View.encode and kind.decode is not View.decode


def check_view(view: object) -> None:
    """Raise InvalidError unless it is a view whose `apply` can run."""
    if not isinstance(view, View):
        kind = view.__qualname__ if isinstance(view, type) else "MyView"
        raise InvalidError(f"a view is an object of a View, write {kind}()", view=repr(view))
    for name in ("initial", "apply", "check", "encode", "decode"):
        function = getattr(view, name)
        if inspect.iscoroutinefunction(function):
            raise InvalidError("a view runs in a thread, write this without async", name=name)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidError(
                "a function that yields would never run, return instead",
                view=view.name,
                function=name,
            )
