"""A placeholder for a view that does not exist yet."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Unpack

from strandline.log import Value
from strandline.values import NotReadyError, Partition
from strandline.values.prompt import prompt_text
from strandline.views.health import ViewHealth
from strandline.views.live_view import LiveView
from strandline.views.publishing import PUBLISH_TIMEOUT_S, AppendOptions, Publication
from strandline.views.view import StateT

_NO_PARTITION = -1


class PendingView(Generic[StateT]):
    """Raises NotReadyError for everything, writes included, until `become`.

    After that each call goes to the view that was set last, so that no write is accepted and
    lost during a start, and a view can be replaced while it is in use. In calls that name no
    partition, NotReadyError has the partition -1.
    """

    def __init__(self) -> None:
        self._view: LiveView[StateT] | None = None

    def __repr__(self) -> str:
        return prompt_text("PendingView", self._view)

    def become(self, view: LiveView[StateT]) -> LiveView[StateT] | None:
        """Forward to `view` from now on, and return the previous one."""
        before, self._view = self._view, view
        return before

    def reconcile(self, partitions: Iterable[int]) -> None:
        """See LiveView."""
        self._there().reconcile(partitions)

    def assigned(self) -> Sequence[Partition]:
        """See LiveView."""
        return self._there().assigned()

    def rebuild(self, partitions: Iterable[int] | None = None) -> None:
        """See LiveView."""
        self._there().rebuild(partitions)

    def read(
        self,
        partition: int,
        query: Callable[[StateT], Any],
        *,
        default: Any = None,
        min_offset: int | None = None,
    ) -> Any:
        """See LiveView."""
        there = self._there(partition)
        return there.read(partition, query, default=default, min_offset=min_offset)

    def partition_of(self, key: str) -> Partition:
        """See LiveView."""
        return self._there().partition_of(key)

    def applied(self, partition: int) -> int:
        """See LiveView."""
        return self._there(partition).applied(partition)

    def committed(self, partition: int) -> int:
        """See LiveView."""
        return self._there(partition).committed(partition)

    def is_ready(self, partition: int) -> bool:
        """See LiveView."""
        return self._there(partition).is_ready(partition)

    def lag(self) -> Mapping[Partition, int]:
        """See LiveView."""
        return self._there().lag()

    def health(self) -> ViewHealth:
        """See LiveView."""
        return self._there().health()

    def wait_applied(self, partition: int, offset: int, timeout_s: float | None = None) -> None:
        """See LiveView."""
        self._there(partition).wait_applied(partition, offset, timeout_s)

    def wait_ready(self, timeout_s: float | None = None) -> None:
        """See LiveView."""
        self._there().wait_ready(timeout_s)

    def publish(
        self,
        value: Value,
        *,
        timeout_s: float = PUBLISH_TIMEOUT_S,
        **options: Unpack[AppendOptions],
    ) -> Publication:
        """See LiveView."""
        return self._there().publish(value, timeout_s=timeout_s, **options)

    def save(self) -> None:
        """See LiveView."""
        self._there().save()

    def _there(self, partition: int = _NO_PARTITION) -> LiveView[StateT]:
        # Read once for each call, so that a call uses one view throughout.
        view = self._view
        if view is None:
            raise NotReadyError(partition)
        return view
