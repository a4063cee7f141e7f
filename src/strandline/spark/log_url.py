"""URLs of logs that several processes of one machine understand alike."""

from strandline.io import real_parent, real_path
from strandline.opening import default_url
from strandline.values import InvalidError, parse_log_url


def absolute_url(url: str | None) -> str:
    """Return the URL with an absolute path; without one the environment's, as for `open`.

    InvalidError for `memory:`, which no other process can reach.
    """
    scheme, path = parse_log_url(url or default_url())
    if scheme == "memory":
        raise InvalidError(
            "a memory: log lives in one process and Spark in several, use file: or sqlite:",
            path=url,
        )
    # As the log itself has it: what Spark stages lies beside its files.
    return f"{scheme}:{real_path(path) if scheme == 'file' else real_parent(path)}"
