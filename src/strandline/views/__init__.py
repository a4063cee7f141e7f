"""Views: state folded from records, which knows the offsets that it has applied.

Promises: an answer comes from a state that has caught up, or is an error that names the
partition, and a default answer means not assigned; snapshot plus tail give the same state as
a full replay; a snapshot that does not match is not used; a publisher through a view gets the
outcome of its record; user code of one partition does not delay readers of another.

Does not promise an order across partitions, nor that `apply` runs once: after a restart it
runs again for records that the snapshot does not cover, on the state of that snapshot.
"""

from strandline.views.async_view import AsyncLiveView, AsyncPendingView
from strandline.views.errors import RefusedError, StoppedError
from strandline.views.health import PartitionHealth, Readiness, ViewHealth
from strandline.views.live_view import LiveView
from strandline.views.outcomes import REFUSALS_KEPT
from strandline.views.pending import PendingView
from strandline.views.publishing import PUBLISH_TIMEOUT_S, Publication
from strandline.views.saved_view import SavedPartition, SavedView, load_snapshot
from strandline.views.saving import SNAPSHOT_INTERVAL_S
from strandline.views.view import View

__all__ = [
    "PUBLISH_TIMEOUT_S",
    "REFUSALS_KEPT",
    "SNAPSHOT_INTERVAL_S",
    "AsyncLiveView",
    "AsyncPendingView",
    "LiveView",
    "PartitionHealth",
    "PendingView",
    "Publication",
    "Readiness",
    "RefusedError",
    "SavedPartition",
    "SavedView",
    "StoppedError",
    "View",
    "ViewHealth",
    "load_snapshot",
]
