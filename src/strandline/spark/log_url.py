"""URLs of logs that several processes of one machine understand alike."""

import os

from strandline.opening import default_url
from strandline.values import InvalidError


def absolute_url(url: str | None) -> str:
    """Return the URL with an absolute path; without one the environment's, as for `open`.

    InvalidError for `memory:`, which no other process can reach.
    """
    scheme, _, path = (url or default_url()).partition(":")
    if scheme == "memory":
        raise InvalidError(
            "a memory: log lives in one process and Spark in several, use file: or sqlite:",
            path=url,
        )
    if scheme in ("file", "sqlite") and path:
        return f"{scheme}:{os.path.abspath(path)}"
    return url or default_url()
