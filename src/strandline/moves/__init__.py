"""Moves logs from one store to another, record by record. See design 0099.

Promises: the same offsets, timestamps, keys, tenants, identities and proofs, compared at
the end; an interrupted copy resumes where it stopped. Processes may write meanwhile.
"""

from strandline.moves.moving import copy

__all__ = ["copy"]
