"""Completing what writers have decided and could not finish."""

from strandline.opening import absolute_url, open_log


def finish_writes(url: str | None = None) -> int:
    """Complete every batch that a Spark write has recorded in this log; return how many.

    For writes that are not run again: a query that is started again does so by itself.
    """
    from strandline.opening import staging_path  # noqa: PLC0415
    from strandline.spark.sink.committing import finish_all  # noqa: PLC0415 # Needs numpy.

    found = absolute_url(url)
    with open_log(found) as log:
        return finish_all(log, staging_path(found))
