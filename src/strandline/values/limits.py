"""Bounds that every log keeps, stated once."""

RECORD_BYTES_MAX = 16 * 1024 * 1024
"""How large a record may be unless a log was opened with another maximum.

A record is as large as its key and, for an event, its kind, payload and headers as
they are stored; for a batch, its `nbytes`.
"""

PRODUCER_SEQUENCES_KEPT = 1024
"""How many of a producer's latest sequences a partition can still recognise."""

IDEMPOTENCY_KEYS_KEPT = 65_536
"""How many idempotency keys a partition can still recognise."""

IDENTITY_AGE_S = 7 * 24 * 3600
"""How long a partition recognises an idempotency key, or a silent producer."""

CONSUMER_IDLE_S = 7 * 24 * 3600
"""After how long without a heartbeat a consumer no longer holds trimming back."""

REQUEST_RECORDS_MAX = 250_000
"""How many records one request to a server appends."""
