"""About how much a process has added to the write-ahead log."""

#: Size of the write-ahead log at which it is moved into the database.
CHECKPOINT_BYTES = 16 * 1024 * 1024
#: About what the smallest transaction adds to it, and each row besides.
COMMIT_BYTES = 5 * 1024
PAGE_BYTES = 4 * 1024
#: Rows beyond so many are taken to share their pages.
_PAGES_MAX = 256


def transaction_bytes(rows: int) -> int:
    """Return about how much a transaction adds that changes so many rows."""
    return COMMIT_BYTES + PAGE_BYTES * min(rows, _PAGES_MAX) if rows else 0


def is_much(logged_bytes: int) -> bool:
    """Whether so much is to be moved into the database."""
    return logged_bytes >= CHECKPOINT_BYTES
