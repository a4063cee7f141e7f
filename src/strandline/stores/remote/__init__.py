"""A log that a server has: the port of the store, over HTTP. See design 0101.

Promises what the server's own store promises; an answer that is lost is asked for again,
and an append that is sent again is stored once.
"""

from strandline.stores.remote.store import RemoteStore

__all__ = ["RemoteStore"]
