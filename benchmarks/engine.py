"""`engine.*`: our log on a server, beside the server's own client without a log."""

from collections.abc import Callable, Mapping

from benchmarks.append import PRODUCERS, contenders
from benchmarks.entry import Entry
from benchmarks.producing import batch_rate, single_rate, threads_rate
from benchmarks.sizes import Sizes
from benchmarks.stores.postgres import BareTable, our_log
from benchmarks.stores.store import Opening
from strandline.values import Durability
from tests.stores.postgres.server import why_none

DURABLE = Durability.DURABLE


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries of `engine.`; none where no server can be started."""
    if why_none() is not None:
        return ()
    return (
        _postgres("single", 0.7, single_rate, sizes.singles_durable),
        _postgres("batch1000", 0.7, batch_rate, sizes.batches, sizes.batch_events),
        _postgres("sixteen", 1.0, threads_rate, PRODUCERS, sizes.producer_durable),
    )


def _postgres(name: str, bar: float, rate: Callable[..., float], *counts: int) -> Entry:
    openings: Mapping[str, Opening] = {"ours": our_log, "psycopg": BareTable}
    return Entry(
        name=f"engine.postgres.{name}",
        unit="events/s",
        contenders=contenders(rate, openings, DURABLE, *counts),
        bars={"psycopg": bar},
    )
