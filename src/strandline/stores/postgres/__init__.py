"""A log in a PostgreSQL database. See design 0090.

Promises: offsets follow the order of commits, without gaps; whatever is acknowledged was
committed with `synchronous_commit`. Does not keep files, and relies on the server's own
checksums for its pages.
"""

from strandline.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
