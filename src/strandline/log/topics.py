"""The rules of topics: which names may be new, and what is said of one that is not there."""

import difflib
from collections.abc import Iterable

from strandline.log.results import TopicName
from strandline.values import (
    ConflictError,
    InvalidError,
    Tenant,
    Topic,
    TopicSettings,
    check_case_twin,
    check_topic_name,
)
from strandline.values.names import RESERVED_PREFIX

_NEAR_MAX = 3


def check_new_topic(
    name: str, settings: TopicSettings, known: TopicSettings | None, names: Iterable[str]
) -> None:
    """Raise unless a topic of this name may be created, or is there with equal settings.

    `known` are the settings of the tenant's topic of this name, `names` those of all of
    the tenant's topics. A store calls this under the exclusion in which it creates.
    """
    if known is None:
        check_case_twin(name, list(names))
    elif known != settings:
        raise ConflictError(
            "the topic exists with other settings, use it as it is or choose another name",
            topic=name,
            **known.unlike(settings),
        )


def name_of(topic: TopicName, tenant: Tenant | None) -> tuple[Tenant | None, str]:
    """Return tenant and name by which a topic is looked up."""
    if isinstance(topic, Topic):
        return topic.tenant, topic.name
    return tenant, check_topic_name(topic, internal=True)


def is_internal_name(name: str) -> bool:
    """Return whether a topic of this name is one that the rooms above keep for themselves."""
    return name.startswith(RESERVED_PREFIX)


def unknown_topic(name: str, names: Iterable[str]) -> InvalidError:
    """Return the error for a topic that is not there; `names` are those of the tenant."""
    is_internal = is_internal_name(name)
    others = [each for each in names if is_internal_name(each) == is_internal and each != name]
    near = difflib.get_close_matches(name, others, _NEAR_MAX)
    return InvalidError(
        "there is no such topic, create it first or check the spelling", topic=name, near=near
    )
