"""The identity and settings of a topic, and the starts of a read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import (
    TYPE_CHECKING,
    Final,
    Literal,
    NamedTuple,
    NewType,
    TypeAlias,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import msgspec

from strandline.values.arguments import check_choice
from strandline.values.errors import InvalidError
from strandline.values.html import html_fields
from strandline.values.names import check_length, check_text, check_topic_name
from strandline.values.tenant import Tenant, parse_tenant

if TYPE_CHECKING:
    import pyarrow as pa

PARTITIONS_MAX = 4096
METADATA_BYTES_MAX = 64 * 1024
_INT64_MAX = 2**63 - 1
_ID_VERSION = 7

Partition = NewType("Partition", int)
"""The number of a partition, from 0."""

Offset = NewType("Offset", int)
"""A position in a partition, from 0; a start is inclusive, an end exclusive."""

Loaded = TypeVar("Loaded")


class Start(Enum):
    """A start that is resolved when reading begins."""

    EARLIEST = "earliest"
    LATEST = "latest"

    def __repr__(self) -> str:
        return self.name

    @classmethod
    def parse(cls, value: object) -> "Start":
        """Return `value` as a start, also by its name; InvalidError for anything else."""
        return check_choice("start", value, cls, "an offset from 0", "a datetime")


StartName: TypeAlias = Literal["earliest", "latest"]
"""The name of a start."""


EARLIEST: Final = Start.EARLIEST
"""From the oldest stored record."""

LATEST: Final = Start.LATEST
"""From the high-water mark: only records appended from now on."""


class ValueKind(StrEnum):
    """The type of the values of a topic."""

    EVENT = "event"
    BYTES = "bytes"
    BATCH = "batch"

    @classmethod
    def parse(cls, value: object) -> "ValueKind":
        """Return `value` as a kind, also by its name; InvalidError for anything else."""
        return check_choice("value_kind", value, cls)


ValueKindName: TypeAlias = Literal["event", "bytes", "batch"]
"""The name of a kind of values."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's identity. The id, a UUIDv7, is never reused; the name is for people."""

    name: str
    id: UUID
    tenant: Tenant | None = None

    def __post_init__(self) -> None:
        # The name was checked by create_topic.
        check_topic_name(self.name, internal=True)
        parse_tenant(self.tenant)
        if getattr(self.id, "version", None) != _ID_VERSION:
            raise InvalidError("a topic id is a UUID of version 7, take it from the clock")

    def __hash__(self) -> int:
        # The number is hashed several times faster than the id.
        return hash(self.id.int)

    def _repr_html_(self) -> str:
        return html_fields(f"Topic {self.name}", {"id": self.id, "tenant": self.tenant})

    def to_json(self) -> bytes:
        """Return the identity as versioned JSON."""
        return msgspec.json.encode(_TopicV1(1, self.name, self.id, self.tenant))

    @classmethod
    def from_json(cls, data: bytes) -> "Topic":
        """Return the value that `to_json` has encoded; InvalidError for anything else."""
        stored = _load(data, _decode_topic)
        return cls(stored.name, stored.id, parse_tenant(stored.tenant))


class TopicOptions(TypedDict, total=False):
    """Options of creating a topic, see `TopicSettings`."""

    partitions: int
    value_kind: ValueKind | ValueKindName
    retention_age_s: int | None
    retention_bytes: int | None
    limit_bytes: int | None
    proof: bool
    schema: bytes | None
    payload_schema: "pa.Schema | None"
    source: str | None


class Unchanged(Enum):
    """Represents a limit that a call does not name."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return self.name


UNCHANGED: Final = Unchanged.UNCHANGED
"""The limit does not change."""

Limit: TypeAlias = "int | Unchanged | None"
"""A limit to set, None to remove it, or UNCHANGED to keep it."""


class EarlierPartitions(NamedTuple):
    """How many partitions a topic had, and until when values were routed by that count."""

    partitions: int
    until_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The settings of a topic. Retention None keeps everything.

    `retention_bytes` waits for consumers that are behind; `limit_bytes` does not.
    `proof` chains the records, so that `verify` can detect changed history.
    `schema` is the schema of a batch topic's first batches, as Arrow serializes it, and is
    stored for the typed topics; of an event topic it is the declaration of its payload
    fields, see `payload_schema`. `metadata` is the user's own, sorted by key.
    `earlier_partitions` are the counts before partitions were added, oldest first.
    `source` names data that other programs write, such as a Kafka topic: its records are only
    read, as bytes, and their offsets have gaps. See design 0131.
    """

    partitions: int = 1
    value_kind: ValueKind = ValueKind.EVENT
    retention_age_s: int | None = None
    retention_bytes: int | None = None
    limit_bytes: int | None = None
    proof: bool = False
    schema: bytes | None = None
    metadata: tuple[tuple[str, str], ...] = ()
    earlier_partitions: tuple[EarlierPartitions, ...] = ()
    source: str | None = None

    def routing_partitions(self, now_us: int) -> int:
        """Return the count by which values are routed at this time."""
        for partitions, until_us in self.earlier_partitions:
            if now_us < until_us:
                return partitions
        return self.partitions

    def with_partitions(self, partitions: int, until_us: int) -> "TopicSettings":
        """Return the settings with more partitions, which apply to routing from `until_us` on."""
        _check_count("partitions", partitions, PARTITIONS_MAX)
        if partitions < self.partitions:
            raise InvalidError(
                "a topic never loses partitions, pass a count above the present one",
                partitions=partitions,
                partitions_now=self.partitions,
            )
        if partitions == self.partitions:
            return self
        latest_us = max((each.until_us for each in self.earlier_partitions), default=until_us)
        earlier = EarlierPartitions(self.partitions, max(until_us, latest_us))
        return replace(
            self,
            partitions=partitions,
            earlier_partitions=(*self.earlier_partitions, earlier),
        )

    def is_same(self, wanted: "TopicSettings") -> bool:
        """Whether a topic with these settings satisfies a caller that creates it.

        An earlier number of partitions counts as equal, and so do settings that other
        processes may change.
        """
        if self.source is not None:
            return replace(wanted, partitions=self.partitions) == self
        counts = {self.partitions, *(each.partitions for each in self.earlier_partitions)}
        return wanted.partitions in counts and wanted == replace(
            self, partitions=wanted.partitions, earlier_partitions=()
        )

    @property
    def payload_schema(self) -> "pa.Schema | None":
        """The declared payload fields of an event topic; None if there are none."""
        if self.schema is None or self.value_kind is not ValueKind.EVENT:
            return None
        from strandline.values.batches import decode_schema  # noqa: PLC0415 - Imports pyarrow.

        return decode_schema(self.schema)

    def with_payload_schema(self, schema: bytes | None) -> "TopicSettings":
        """Return the settings with another declaration in its stored form; None removes it.

        InvalidError unless the topic is one of events.
        """
        if self.value_kind is not ValueKind.EVENT:
            raise InvalidError(
                "only events have payloads, and this topic holds others",
                value_kind=str(self.value_kind),
            )
        return replace(self, schema=schema)

    def shown_payload_schema(self) -> object:
        """Return the names and types of `payload_schema`, as JSON has them."""
        declared = self.payload_schema
        if declared is None:
            return None
        from strandline.values.payload_schema import shown_payload_schema  # noqa: PLC0415 - The same.

        return shown_payload_schema(declared)

    @property
    def batch_schema(self) -> bytes | None:
        """The schema of a batch topic's first batches, as Arrow serializes it."""
        return self.schema if self.value_kind is ValueKind.BATCH else None

    @property
    def has_limits(self) -> bool:
        """Whether records may be removed without a call of `trim`."""
        limits = self.retention_age_s, self.retention_bytes, self.limit_bytes
        return limits != (None, None, None)

    def with_limits(
        self, *, retention_age_s: Limit, retention_bytes: Limit, limit_bytes: Limit
    ) -> "TopicSettings":
        """Return the settings with these limits; UNCHANGED keeps a limit."""
        wanted = {
            "retention_age_s": retention_age_s,
            "retention_bytes": retention_bytes,
            "limit_bytes": limit_bytes,
        }
        named = {name: limit for name, limit in wanted.items() if limit is not UNCHANGED}
        return replace(self, **named)  # type: ignore[arg-type] # Checked when it is made.

    def unlike(self, other: "TopicSettings") -> dict[str, object]:
        """Return the settings that differ from `other`, with the values here."""
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in self.__slots__}
        found = {
            name: str(ours) if isinstance(ours, ValueKind) else ours
            for name, (ours, theirs) in pairs.items()
            if ours != theirs
        }
        if "schema" in found and ValueKind.BATCH not in (self.value_kind, other.value_kind):
            del found["schema"]
            found["payload_schema"] = self.shown_payload_schema()
        return found

    def __post_init__(self) -> None:
        _check_count("partitions", self.partitions, PARTITIONS_MAX)
        if self.retention_age_s is not None:
            _check_count("retention_age_s", self.retention_age_s)
        if self.retention_bytes is not None:
            _check_count("retention_bytes", self.retention_bytes)
        if self.limit_bytes is not None:
            _check_count("limit_bytes", self.limit_bytes)
            if self.limit_bytes < (self.retention_bytes or 0):
                raise InvalidError(
                    "limit_bytes is no less than retention_bytes",
                    limit_bytes=self.limit_bytes,
                    retention_bytes=self.retention_bytes,
                )
        object.__setattr__(self, "value_kind", ValueKind.parse(self.value_kind))
        if not isinstance(self.proof, bool):
            raise InvalidError("proof is True or False", proof=self.proof)
        self._check_schema()
        if self.source is not None:
            self._check_source()

    def _check_source(self) -> None:
        check_text(self.source, "source")
        if self.value_kind is not ValueKind.BYTES:
            raise InvalidError(
                "what other programs write is read as bytes, pass value_kind='bytes' or leave it",
                value_kind=str(self.value_kind),
                source=self.source,
            )
        if self.proof or self.has_limits:
            raise InvalidError(
                "a topic that other programs write has no proof and no retention of this log's:"
                " leave them out, and set its retention where it is written",
                source=self.source,
            )

    def _check_schema(self) -> None:
        if self.schema is None:
            return
        if type(self.schema) is not bytes or not self.schema:
            raise InvalidError(
                "schema is the bytes of an Arrow schema, pass a pyarrow.Schema to"
                " log.scope().register instead",
                type=type(self.schema).__name__,
            )
        if self.value_kind is ValueKind.BYTES:
            raise InvalidError("records of plain bytes have no schema", value_kind="bytes")

    def to_json(self) -> bytes:
        """Return the settings as versioned JSON."""
        return msgspec.json.encode(
            _SettingsV1(
                1,
                self.partitions,
                self.value_kind,
                self.retention_age_s,
                self.retention_bytes,
                self.proof,
                self.limit_bytes,
                self.schema,
                dict(self.metadata),
                self.earlier_partitions,
                self.source,
            )
        )

    @classmethod
    def from_json(cls, data: bytes) -> "TopicSettings":
        """Return the value that `to_json` has encoded; InvalidError for anything else."""
        stored = _load(data, _decode_settings)
        return cls(
            partitions=stored.partitions,
            value_kind=stored.value_kind,
            retention_age_s=stored.retention_age_s,
            retention_bytes=stored.retention_bytes,
            limit_bytes=stored.limit_bytes,
            proof=stored.proof,
            schema=stored.schema,
            metadata=sorted_metadata(stored.metadata),
            earlier_partitions=stored.earlier_partitions,
            source=stored.source,
        )


def sorted_metadata(metadata: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Return a map of texts in the form of `TopicSettings`; InvalidError for anything else."""
    if metadata is None:
        return ()
    if not isinstance(metadata, Mapping):
        raise InvalidError("metadata is a mapping of texts", type=type(metadata).__name__)
    pairs = [
        (check_length(check_text(key, "metadata key"), "metadata key", METADATA_BYTES_MAX), value)
        for key, value in metadata.items()
    ]
    checked = sorted((key, check_text(value, "metadata value")) for key, value in pairs)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in checked)
    if size > METADATA_BYTES_MAX:
        raise InvalidError(
            "this metadata is too large, shorten it", bytes=size, bytes_max=METADATA_BYTES_MAX
        )
    return tuple(checked)


class _Version(msgspec.Struct):
    version: int


class _TopicV1(msgspec.Struct, forbid_unknown_fields=True):
    version: Literal[1]
    name: str
    id: UUID
    tenant: str | None


class _SettingsV1(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    version: Literal[1]
    partitions: int
    value_kind: ValueKind
    retention_age_s: int | None
    retention_bytes: int | None
    proof: bool = False
    limit_bytes: int | None = None
    schema: bytes | None = None
    metadata: dict[str, str] = {}
    earlier_partitions: tuple[EarlierPartitions, ...] = ()
    source: str | None = None


_decode_version = msgspec.json.Decoder(_Version).decode
_decode_topic = msgspec.json.Decoder(_TopicV1).decode
_decode_settings = msgspec.json.Decoder(_SettingsV1).decode


def _load(data: bytes, decode: Callable[[bytes], Loaded]) -> Loaded:
    try:
        version = _decode_version(data).version
        if version != 1:
            raise InvalidError(
                "this was written by another version of strandline, upgrade to read it",
                version=version,
                version_known=1,
            )
        return decode(data)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidError(
            "this is not what strandline stores for a topic", reason=str(error)
        ) from error


def _check_count(name: str, value: object, most: int = _INT64_MAX) -> None:
    if type(value) is int and 1 <= value <= most:
        return
    raise InvalidError(f"{name} is a whole number from 1 to {most}", **{name: value})
