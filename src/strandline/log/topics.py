"""The rules of topics: which names a new one may have, and the error for an unknown one."""

import difflib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from strandline.log.results import TopicName
from strandline.values import (
    ConflictError,
    InvalidError,
    Limit,
    Tenant,
    Topic,
    TopicOptions,
    TopicSettings,
    ValueKind,
    check_case_twin,
    check_may_shorten,
    check_topic_name,
)
from strandline.values.arguments import check_options
from strandline.values.batches import check_schema, decode_schema
from strandline.values.names import RESERVED_PREFIX
from strandline.values.payload_schema import check_payload_schema, encode_payload_schema

_NEAR_MAX = 3


class TopicNames:
    """The names in use, indexed without case. The caller holds a lock for changes."""

    def __init__(self) -> None:
        # By tenant and whether they are internal, then by the name without case.
        self._names: dict[tuple[Tenant | None, bool], dict[str, set[str]]] = {}

    def add(self, tenant: Tenant | None, name: str) -> None:
        """Add a name."""
        group = self._names.setdefault((tenant, is_internal_name(name)), {})
        group.setdefault(name.lower(), set()).add(name)

    def discard(self, tenant: Tenant | None, name: str) -> None:
        """Remove a name."""
        group = self._names.get((tenant, is_internal_name(name)), {})
        case_variants = group.get(name.lower(), set())
        case_variants.discard(name)
        if not case_variants:
            group.pop(name.lower(), None)

    def case_variants(self, tenant: Tenant | None, name: str) -> Iterable[str]:
        """Return the tenant's names that differ at most by case."""
        group = self._names.get((tenant, is_internal_name(name)), {})
        return tuple(group.get(name.lower(), ()))


def check_new_topic(
    name: str, settings: TopicSettings, known: TopicSettings | None, case_variants: Iterable[str]
) -> None:
    """Raise unless a topic of this name may be created, or exists with equal settings.

    `known` are the settings of the tenant's topic of this name, `case_variants` the tenant's names
    that differ only by case. A store calls this under the lock with which it creates topics.
    """
    if known is None:
        check_case_twin(name, list(case_variants))
    else:
        check_same_settings(name, known, settings)


def check_same_settings(name: str, known: TopicSettings, wanted: TopicSettings) -> None:
    """Raise ConflictError with each setting that differs, as it is and as it was requested."""
    if known.is_same(wanted):
        return
    raise ConflictError(
        "the topic exists with other settings (None is no limit), pass the same,"
        f"{_how_to_change(known, wanted)} or choose another name",
        topic=name,
        **known.unlike(wanted),
        **{f"{setting}_asked": value for setting, value in wanted.unlike(known).items()},
    )


def _how_to_change(known: TopicSettings, wanted: TopicSettings) -> str:
    """Return how to change the existing topic as wanted, as far as it can be changed."""
    differing = known.unlike(wanted)
    advice = ""
    if wanted.partitions > known.partitions:
        advice = " add partitions with add_partitions (`strandline add-partitions`),"
    if differing.keys() & {"retention_age_s", "retention_bytes", "limit_bytes"}:
        advice += " change its limits with change_retention (`strandline retention`),"
    return advice


def name_of(topic: TopicName, tenant: Tenant | None) -> tuple[Tenant | None, str]:
    """Return tenant and name by which a topic is looked up."""
    if isinstance(topic, Topic):
        return topic.tenant, topic.name
    return tenant, check_topic_name(topic, internal=True)


def is_internal_name(name: str) -> bool:
    """Whether a topic of this name is an internal one of the rooms above."""
    return name.startswith(RESERVED_PREFIX)


def unknown_topic(name: str, names: Iterable[str]) -> InvalidError:
    """Return the error for an unknown topic; `names` are those of the tenant."""
    is_internal = is_internal_name(name)
    others = [each for each in names if is_internal_name(each) == is_internal and each != name]
    near = difflib.get_close_matches(name, others, _NEAR_MAX)
    return InvalidError(
        "there is no such topic, create it first or check the spelling", topic=name, near=near
    )


def topic_settings(options: TopicOptions, metadata: tuple[tuple[str, str], ...]) -> TopicSettings:
    """Return the settings that a call of `create_topic` gives."""
    check_options("create_topic", options, TopicOptions.__optional_keys__)
    chosen: dict[str, Any] = {**options}
    if options.get("source") is not None:
        if "partitions" in options:
            raise InvalidError(
                "a topic that other programs write has the partitions that they gave it, leave"
                " partitions out",
                source=options["source"],
            )
        chosen.setdefault("value_kind", ValueKind.BYTES)
    kind = ValueKind.parse(chosen.get("value_kind", ValueKind.EVENT))
    declared = chosen.pop("payload_schema", None)
    if chosen.get("schema") is not None and kind is not ValueKind.BATCH:
        raise InvalidError(
            "only a topic of batches has a schema; use payload_schema to declare payloads",
            value_kind=str(kind),
        )
    if declared is not None:
        if kind is not ValueKind.EVENT:
            raise InvalidError(
                "only events have a payload_schema; register the schema of batches with"
                " log.scope().register",
                value_kind=str(kind),
            )
        chosen["schema"] = encode_payload_schema(declared)
    return TopicSettings(**chosen, metadata=metadata)


def check_settings(name: str, settings: TopicSettings) -> None:
    """Raise InvalidError unless a topic of this name may be created with these settings."""
    if settings.batch_schema is not None:
        check_schema(decode_schema(settings.batch_schema))
    if settings.payload_schema is not None:
        check_payload_schema(settings.payload_schema)
    if settings.has_limits:
        check_may_shorten(name)


def change_of_limits(
    topic: TopicName, retention_age_s: Limit, retention_bytes: Limit, limit_bytes: Limit
) -> Callable[[TopicSettings], TopicSettings]:
    """Return the change of a topic's limits; InvalidError if the topic may not be trimmed."""
    if any(isinstance(each, int) for each in (retention_age_s, retention_bytes, limit_bytes)):
        check_may_shorten(topic)
    return partial(
        TopicSettings.with_limits,
        retention_age_s=retention_age_s,
        retention_bytes=retention_bytes,
        limit_bytes=limit_bytes,
    )
