"""Every entry, family by family, in the order in which they are measured and shown."""

from benchmarks import append, coordinator
from benchmarks.entry import Entry
from benchmarks.sizes import FULL, Sizes


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return every entry, with rounds of these sizes."""
    return (*coordinator.ENTRIES, *append.entries(sizes))


ENTRIES = entries(FULL)
