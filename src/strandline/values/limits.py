"""Limits that apply to every log."""

RECORD_BYTES_MAX = 16 * 1024 * 1024
"""How large a record may be, unless a log was opened with another limit.

A record is as large as its key and, for an event, its kind, payload and headers as
they are stored; for a batch, its `nbytes`.
"""

PRODUCER_SEQUENCES_KEPT = 1024
"""How many of a producer's latest sequences a partition recognises."""

IDEMPOTENCY_KEYS_KEPT = 65_536
"""How many of the latest idempotency keys a partition recognises."""

IDENTITY_AGE_S = 7 * 24 * 3600
"""How long a partition recognises an idempotency key, or a producer after its last append."""

CONSUMER_IDLE_S = 7 * 24 * 3600
"""After this time without a heartbeat a consumer no longer delays trimming."""

REQUEST_RECORDS_MAX = 250_000
"""How many records one request to a server may append."""
