"""The stores: each implements the port of `log`, and nothing else.

Promises: bytes, locks and recovery. Rules that hold for every log are in `log`.

Only `opening` and `testing` name a store.
"""
