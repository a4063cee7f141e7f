"""The library's own topics in a log, and which of them may be trimmed or dropped."""

from typing import Final, NamedTuple

from strandline.values.errors import InvalidError
from strandline.values.names import RESERVED_PREFIX
from strandline.values.topic import Topic

SEGMENTS_TOPIC: Final = f"{RESERVED_PREFIX}segments"
SCHEMAS_TOPIC: Final = f"{RESERVED_PREFIX}schemas"
TOKENS_TOPIC: Final = f"{RESERVED_PREFIX}tokens"
QUOTAS_TOPIC: Final = f"{RESERVED_PREFIX}quotas"
DELIVERIES_PREFIX: Final = f"{RESERVED_PREFIX}deliveries."
DEAD_LETTERS_PREFIX: Final = f"{RESERVED_PREFIX}dead_letters."
REDRIVEN_PREFIX: Final = f"{RESERVED_PREFIX}redriven."
HANDLED_PREFIX: Final = f"{RESERVED_PREFIX}handled."


class InternalTopic(NamedTuple):
    """One kind of internal topic."""

    #: The complete name, or a prefix if it ends in a dot.
    name: str
    holds: str
    #: The effect of removing its oldest records; None if they must not be removed.
    cost: str | None
    #: What to do instead of removing them.
    instead: str = ""


INTERNAL_TOPICS: Final = (
    InternalTopic(
        SEGMENTS_TOPIC,
        "the segment catalogue, the only index of the records in the tier",
        None,
        "trim or drop the topics whose copies it lists",
    ),
    InternalTopic(
        SCHEMAS_TOPIC,
        "the later versions of every schema, without which typed records cannot be read",
        None,
        "drop the typed topics that are no longer needed",
    ),
    InternalTopic(
        TOKENS_TOPIC,
        "the tokens of the server, as digests",
        None,
        "revoke the tokens that are no longer needed",
    ),
    InternalTopic(
        QUOTAS_TOPIC,
        "the quotas of the tenants, in its keyed area; it has no records",
        None,
        "remove the quotas that are no longer needed",
    ),
    InternalTopic(
        DELIVERIES_PREFIX,
        "the delivery counts of a consumer's outstanding records; the consumer trims it",
        "counts begin again, so a poison record is delivered more often before it is dead-lettered",
    ),
    InternalTopic(
        DEAD_LETTERS_PREFIX,
        "dead letters of a topic",
        "they can no longer be redriven; the original stays as long as its own topic keeps it",
    ),
    InternalTopic(
        REDRIVEN_PREFIX,
        "which dead letters were redriven",
        "they may be redriven a second time; with force, one that is not handled yet is not "
        "redriven at all",
    ),
    InternalTopic(
        HANDLED_PREFIX,
        "keys that a trigger has handled within its window; the trigger trims it",
        "a record with such a key is handled a second time",
    ),
)
"""Every kind of internal topic. Topics that are not listed may be trimmed and dropped."""


def may_shorten(name: str) -> bool:
    """Return whether records of the topic may ever be removed."""
    return not any(each.cost is None and each.name == name for each in INTERNAL_TOPICS)


def check_may_shorten(topic: object) -> None:
    """Raise InvalidError if no record of the topic may ever be removed.

    Called before records are removed: trimming, forced or not, retention, eviction and
    dropping.
    """
    if not isinstance(topic, str | Topic):
        # Names that are not valid are refused where the topic is looked up.
        return
    name = topic.name if isinstance(topic, Topic) else str.__str__(topic)
    for known in INTERNAL_TOPICS:
        if known.cost is None and name == known.name:
            raise InvalidError(
                f"this topic is {known.holds}; it is never trimmed, evicted or dropped, "
                f"{known.instead}",
                topic=name,
            )
