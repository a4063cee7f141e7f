"""Checks URLs of logs in Spark options."""

from strandline.opening import absolute_url, carries_secret
from strandline.values import InvalidError


def spark_url(url: str | None) -> str:
    """Return a URL that means the same log in every process of a job; None as for `open_log`.

    InvalidError for one with a secret: Spark keeps options in plans, checkpoints and web pages.
    """
    located = absolute_url(url)
    if carries_secret(located):
        raise InvalidError(
            "Spark shows and stores its options, so this URL must not hold a password or "
            "token: set it in the environment of the driver and of the executors"
            " (spark.executorEnv.…), as PGPASSWORD, STRANDLINE_NATS_PASSWORD or STRANDLINE_TOKEN"
        )
    return located
