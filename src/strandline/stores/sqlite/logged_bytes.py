"""An estimate of how much a process has added to the write-ahead log."""

#: The size of the write-ahead log at which it is checkpointed.
CHECKPOINT_BYTES = 16 * 1024 * 1024
#: Estimates of what the smallest transaction adds, and each further row.
COMMIT_BYTES = 5 * 1024
PAGE_BYTES = 4 * 1024
#: Rows beyond this many are assumed to share pages.
_PAGES_MAX = 256


def transaction_bytes(rows: int) -> int:
    """Return approximately how much a transaction adds that changes this many rows."""
    return COMMIT_BYTES + PAGE_BYTES * min(rows, _PAGES_MAX) if rows else 0


def is_much(logged_bytes: int) -> bool:
    """Whether this much should be checkpointed."""
    return logged_bytes >= CHECKPOINT_BYTES
