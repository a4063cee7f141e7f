"""What a reader of a store sees: applied, frozen and stored writes together."""

from __future__ import annotations

from typing import Generic, NamedTuple

from strandline.writes.contracts import F, S, V


class Stamped(NamedTuple, Generic[F]):
    """A frozen delta and its epochs."""

    value: F
    epochs: range


class WriteView(NamedTuple, Generic[V, F, S]):
    """A point in time: every write up to `applied`, none after it."""

    #: Applied and not frozen.
    current: V
    #: Frozen and not yet written, newest first.
    frozen: tuple[Stamped[F], ...]
    #: What the storage holds.
    snapshot: S
    #: The delta that made the snapshot; None before the first flush.
    last_written: Stamped[F] | None
    #: The last epoch in this view, failed ones included.
    applied: int
    #: Rises with each freeze and each flush.
    version: int
