"""The format of a log on an engine: an older strandline must not use a newer format."""

from typing import Final

from strandline.values import InvalidError

LOG_FORMAT: Final = 1


def check_format(found: int, url: str) -> None:
    """Raise InvalidError for a log of a newer format."""
    if found > LOG_FORMAT:
        raise InvalidError(
            "this log was written by a newer version of strandline, upgrade to use it",
            url=url,
            format=found,
        )
