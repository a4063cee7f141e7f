"""Options of Spark's Kafka source and sink that have no meaning for a log, and are ignored."""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

PREFIX: Final = "kafka."
GROUP_ID: Final = "kafka.group.id"
"""The only Kafka setting that is used: the consumer that shows a stream's lag."""
WITHOUT_MEANING: Final = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)

_logger = logging.getLogger("strandline")
_named: set[frozenset[str]] = set()


def is_without_meaning(name: str) -> bool:
    """Whether an option only tunes a Kafka client."""
    lower = name.lower()
    if lower == GROUP_ID:
        return False
    return lower.startswith(PREFIX) or lower in {each.lower() for each in WITHOUT_MEANING}


def with_meaning(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options that have a meaning; warn about the others, once for each process."""
    ignored = [name for name in given if is_without_meaning(name)]
    if ignored:
        warn_once(ignored)
    return {name: value for name, value in given.items() if name not in ignored}


def warn_once(names: Iterable[str]) -> None:
    """Log a warning that names these options, unless it was logged before."""
    found = frozenset(name.lower() for name in names)
    if found not in _named:
        _named.add(found)
        _logger.warning(
            "these options tune a client of Kafka and are ignored: %s", ", ".join(sorted(found))
        )
