"""A log on a server: the port of the store, over HTTP. See design 0101.

Promises what the server's own store promises; a call whose answer was lost is repeated, and
an append that is sent again is stored once.
"""

from strandline.stores.remote.store import RemoteStore

__all__ = ["RemoteStore"]
