"""Completing what writers have decided and could not finish."""

from strandline.opening import open_log
from strandline.spark.log_url import absolute_url


def finish_writes(url: str | None = None) -> int:
    """Complete every batch that a Spark write has recorded in this log; return how many.

    For writes that nobody runs again: a query that is started again does so by itself.
    """
    from strandline.spark.sink.committing import finish_all  # noqa: PLC0415 # Needs numpy.
    from strandline.spark.sink.folder import staging_path  # noqa: PLC0415

    found = absolute_url(url)
    with open_log(found) as log:
        return finish_all(log, staging_path(found))
