"""Logs moved from one store to another, record by record, while others write. See design 0099.

Promises: the same offsets, timestamps, keys, tenants, identities and proofs, compared at the
end; an interrupted copy is continued where it stopped. Does not stop writers.
"""

from strandline.moves.moving import copy

__all__ = ["copy"]
