"""Publishing: a write that returns when the view has applied it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from strandline.log import Receipt, Value
from strandline.log.terms import WriteTerms
from strandline.values import Event, UnavailableError, partition_for_key
from strandline.views.fold import Fold

PUBLISH_TIMEOUT_S: Final = 120.0
"""How long `publish` waits by default for its record to be applied."""


class AppendOptions(WriteTerms, total=False):
    """Options of the log's `append`."""

    key: str | None
    tenant: str | None


@dataclass(frozen=True, slots=True)
class Publication:
    """A record that is in the log and applied to this view."""

    receipt: Receipt
    outcome: Any
    """What `apply` returned; None for a repeat that had been applied before."""


def settled_partition(value: Value, options: AppendOptions, count: int) -> int | None:
    """Return the partition that `append` would choose; None if any partition will do."""
    if (partition := options.get("partition")) is not None:
        return partition
    own = value.key if isinstance(value, Event) else None
    for text in (options.get("key"), own, options.get("producer"), options.get("idempotency_key")):
        if isinstance(text, str):
            return partition_for_key(text, count)
    return None


@contextmanager
def adding_position(receipt: Receipt) -> Iterator[None]:
    """Add the record's position to the error, if its partition is released meanwhile."""
    try:
        yield
    except UnavailableError as error:
        raise UnavailableError(
            "the record is stored, but this view has released its partition",
            partition=receipt.partition,
            offset=receipt.offset,
        ) from error


def publication(fold: Fold[Any], receipt: Receipt, *, is_applied: bool) -> Publication:
    """Return the outcome of the record; raise if the view did not apply it."""
    offset = receipt.offset
    if not is_applied:
        raise UnavailableError(
            "the record is stored, but was not applied in time",
            partition=fold.partition,
            offset=offset,
            applied=fold.mark.value - 1,
        )
    outcome = fold.outcomes.take(fold.partition, offset, fold.quarantined.get(offset))
    return Publication(receipt, outcome)
