"""A log in a PostgreSQL database. See design 0090.

Promises: offsets follow the order of commits, without a gap and without a skip; what is
acknowledged was committed with `synchronous_commit`. Does not keep files, and trusts the
server's own checksums for its pages.
"""

from strandline.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
