"""The rules about a topic's name and settings that every backend shares."""

import difflib
from collections.abc import Collection, Iterable

from strandline.values import (
    ConflictError,
    InvalidError,
    Tenant,
    TopicSettings,
    check_case_twin,
)
from strandline.values.names import RESERVED_PREFIX

_NEAR_MAX = 3


class TopicNames:
    """The names in use, found without a look at each. The caller holds a lock for changes."""

    def __init__(self) -> None:
        # By tenant and whether they are internal, then by the name without case.
        self._names: dict[tuple[Tenant | None, bool], dict[str, set[str]]] = {}

    def add(self, tenant: Tenant | None, name: str) -> None:
        """Note that a name is in use."""
        group = self._names.setdefault((tenant, is_reserved(name)), {})
        group.setdefault(name.lower(), set()).add(name)

    def discard(self, tenant: Tenant | None, name: str) -> None:
        """Note that a name is free."""
        group = self._names.get((tenant, is_reserved(name)), {})
        twins = group.get(name.lower(), set())
        twins.discard(name)
        if not twins:
            group.pop(name.lower(), None)

    def check_twin(self, tenant: Tenant | None, name: str) -> None:
        """Raise InvalidError if the tenant has a name that differs only by case."""
        group = self._names.get((tenant, is_reserved(name)), {})
        check_case_twin(name, group.get(name.lower(), ()))

    def alike(self, tenant: Tenant | None, name: str) -> list[str]:
        """Return the tenant's names of the same kind, internal or not."""
        group = self._names.get((tenant, is_reserved(name)), {})
        return [each for twins in tuple(group.values()) for each in tuple(twins)]


def is_reserved(name: str) -> bool:
    """Whether a topic with this name is internal."""
    return name.startswith(RESERVED_PREFIX)


def unknown_topic(name: str, names: Iterable[str]) -> InvalidError:
    """Return what a caller is told of a topic that is not among `names`."""
    others: Collection[str] = [other for other in names if other != name]
    near = difflib.get_close_matches(name, others, _NEAR_MAX) if others else []
    return InvalidError(
        "there is no such topic, create it first or check the spelling", topic=name, near=near
    )


def check_same_settings(name: str, known: TopicSettings, wanted: TopicSettings) -> None:
    """Raise ConflictError with each setting that differs, as it is and as it was asked for."""
    if known == wanted:
        return
    raise ConflictError(
        "the topic exists with other settings (None is no limit), pass the same,"
        " change its limits with change_retention, or choose another name",
        topic=name,
        **known.unlike(wanted),
        **{f"{setting}_asked": value for setting, value in wanted.unlike(known).items()},
    )
