"""Where a log's bytes can lie: each store implements the port of `log`, and nothing else.

Promises: bytes, locks and recovery. Rules that hold for every log stand in `log`.

Only `opening` and `testing` name a store.
"""
