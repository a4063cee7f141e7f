"""Completes recorded batches whose writers were interrupted."""

from strandline.opening import open_log
from strandline.spark.log_urls import spark_url


def finish_writes(url: str | None = None, *, staging: str | None = None) -> int:
    """Complete every batch that a Spark write has recorded in this log; return how many.

    For writes that are not run again: a query that is restarted completes its own batches.
    `staging` is the `stagingLocation` of the writes, if they had one.
    """
    # These modules need numpy.
    from strandline.spark.sink.committing import finish_all  # noqa: PLC0415
    from strandline.spark.sink.staging_place import StagingPlace  # noqa: PLC0415

    place = StagingPlace(spark_url(url), staging)
    place.check()
    with open_log(place.url) as log:
        return finish_all(log, place.folders(log.id))
