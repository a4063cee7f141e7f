"""The options of a read, given with `.option(…)`, checked before anything is read.

Names and meanings are those of Spark's Kafka source where it has the option. Options of the
Kafka source that only tune a Kafka client are ignored, with a warning. Any other unknown name,
an invalid value, and options that contradict each other raise InvalidError.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from strandline.spark.kafka_options import GROUP_ID, with_meaning
from strandline.values import InvalidError, us_from_datetime

READ_OPTIONS = (
    *("path", "subscribe", "subscribePattern", "assign", "tenant"),
    *("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets"),
    *("startingOffsetsByTimestampStrategy",),
    *("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", "timestampAsOf"),
    *("failOnDataLoss", "groupId", "minPartitions", "maxRecordsPerPartition"),
    *("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    *("predicate", "columns", "includeMetadata", "schemaMode", "pushdown"),
    *("valueFormat", "includeHeaders", GROUP_ID),
)
BATCH_ONLY = (
    *("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", "timestampAsOf"),
    "pushdown",
)
STREAM_ONLY = (
    *("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    "groupId",
)

#: How long a stream waits for `minOffsetsPerTrigger` records, by default.
TRIGGER_DELAY_S = 900.0

#: Wrong names that users write for `subscribe`.
_TOPIC_NAMES = ("topic", "topics")
_DELAY = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Options:
    """The options of one read or write; names are case-insensitive."""

    def __init__(self, given: Mapping[str, str], known: Iterable[str] = READ_OPTIONS) -> None:
        names = {name.lower(): name for name in known}
        self._given: dict[str, str] = {}
        for name, value in with_meaning(given).items():
            if name.lower() not in names:
                raise _unknown(name, names)
            self._given[names[name.lower()]] = value

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def refuse(self, names: Iterable[str], reason: str) -> None:
        """Raise InvalidError if any of these was given."""
        found = [name for name in names if name in self]
        if found:
            raise InvalidError(reason, options=found)

    def only_one(self, *names: str) -> str | None:
        """Return the one of these options that was given, if any; InvalidError for several."""
        found = [name for name in names if name in self]
        if len(found) > 1:
            raise InvalidError("these options contradict each other, give one", options=found)
        return found[0] if found else None

    def text(self, name: str) -> str | None:
        """Return the value; InvalidError for a blank one."""
        value = self._given.get(name)
        if value is not None and not value.strip():
            raise InvalidError("this option is blank, leave it out or give it a value", option=name)
        return value

    def choice(self, name: str, default: str, *others: str) -> str:
        """Return the value, one of these; case-insensitive."""
        value = (self.text(name) or default).lower()
        if value not in (default, *others):
            raise InvalidError(f"{name} is one of {', '.join((default, *others))}", value=value)
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """Return the value of a boolean option."""
        value = self.choice(name, str(default).lower(), str(not default).lower())
        return value == "true"

    def count(self, name: str) -> int | None:
        """Return a whole number, at least 1."""
        value = self.text(name)
        if value is None:
            return None
        if not value.isascii() or not value.isdigit() or not int(value):
            raise InvalidError(f"{name} is a whole number from 1 on", value=value)
        return int(value)

    def seconds(self, name: str, default: float) -> float:
        """Return a duration such as 15m, 30s or 500ms."""
        value = self.text(name)
        if value is None:
            return default
        found = _DELAY.fullmatch(value.strip().lower())
        if found is None:
            raise InvalidError(f"{name} is a number and a unit: 500ms, 30s, 15m, 1h", value=value)
        return int(found[1]) * _UNIT_S[found[2]]

    def names(self, name: str) -> tuple[str, ...] | None:
        """Return a comma-separated list of distinct names."""
        value = self.text(name)
        if value is None:
            return None
        found = tuple(part.strip() for part in value.split(","))
        if "" in found or len(set(found)) < len(found):
            raise InvalidError(f"{name} is a list of names, each once", value=value)
        return found

    def decoded(self, name: str, wanted: Any, example: str) -> Any:
        """Return a value that is JSON of this type."""
        value = self.text(name)
        try:
            return msgspec.json.decode(value or "", type=wanted, strict=False)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidError(
                f"{name} is JSON like {example}", value=value, reason=str(error)
            ) from error


def _unknown(name: str, names: Mapping[str, str]) -> InvalidError:
    for each in READ_OPTIONS:
        if each.lower() == name.lower():
            return InvalidError(
                "this option is for reading alone, write without it, or insert into a table or"
                " view that was made without it",
                option=each,
            )
    if name.lower() in _TOPIC_NAMES and "topic" not in names:
        near = ["subscribe"]
    else:
        near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    if near:
        return InvalidError(f"there is no such option, did you mean {names[near[0]]}?", option=name)
    return InvalidError("there is no such option", option=name, known=sorted(names.values()))


@dataclass(frozen=True, slots=True)
class Selection:
    """The topics to read: their names, a pattern, or certain partitions."""

    names: tuple[str, ...] | None = None
    pattern: str | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class PositionBound:
    """A position in each partition: `earliest`, `latest`, an offset, or a time in µs."""

    word: str | None = None
    #: By topic and partition; -2 is earliest, -1 latest.
    offsets: Mapping[str, Mapping[int, int]] | None = None
    timestamp_us: int | None = None
    timestamps_us: Mapping[str, Mapping[int, int]] | None = None
    #: How a time after the last record is handled: an error, or latest.
    strategy: str = "error"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a micro-batch."""

    rows_max: int | None = None
    bytes_max: int | None = None
    rows_min: int | None = None
    delay_s: float = TRIGGER_DELAY_S


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of the rows, and the filter of the rows."""

    is_kafka: bool = False
    include_headers: bool = False
    include_metadata: bool = False
    columns: tuple[str, ...] | None = None
    predicate: str | None = None
    is_strict: bool = True


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """All options of a reader."""

    url: str | None
    selection: Selection
    shape: Shape
    start: PositionBound | None
    end: PositionBound | None
    limits: Limits
    fail_on_data_loss: bool
    partitions_min: int | None
    records_max: int | None
    consumer: str | None
    pushdown: bool
    given: frozenset[str]

    def check_batch(self) -> None:
        """Raise InvalidError for options of streams only."""
        self._refuse(STREAM_ONLY, "this option is for readStream only, leave it out here")
        words = (self.start.word if self.start else None, self.end.word if self.end else None)
        if words[0] == "latest":
            raise InvalidError("a batch that starts at latest is empty, start somewhere else")
        if words[1] == "earliest":
            raise InvalidError("a batch that ends at earliest is empty, end somewhere else")

    def check_stream(self) -> None:
        """Raise InvalidError for options of batches only."""
        self._refuse(BATCH_ONLY, "this option is for batches only, a stream has no end")

    def _refuse(self, names: Iterable[str], reason: str) -> None:
        found = sorted(self.given & set(names))
        if found:
            raise InvalidError(reason, options=found)


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Return the parsed options of a read; InvalidError if one is invalid."""
    options = Options(given)
    limits = _limits(options)
    return ReadOptions(
        url=options.text("path"),
        selection=_selection(options),
        shape=_shape(options),
        start=_bound(options, "starting"),
        end=_as_of(options) or _bound(options, "ending"),
        limits=limits,
        fail_on_data_loss=options.flag("failOnDataLoss", default=True),
        partitions_min=options.count("minPartitions"),
        records_max=options.count("maxRecordsPerPartition"),
        consumer=options.text("groupId") or options.text(GROUP_ID),
        pushdown=options.flag("pushdown", default=False),
        given=frozenset(name for name in READ_OPTIONS if name in options),
    )


def _selection(options: Options) -> Selection:
    tenant = options.text("tenant")
    chosen = options.only_one("subscribe", "subscribePattern", "assign")
    if chosen is None:
        raise InvalidError("name the topics: give subscribe, subscribePattern or assign")
    if chosen == "subscribe":
        return Selection(names=options.names("subscribe"), tenant=tenant)
    if chosen == "subscribePattern":
        pattern = options.text("subscribePattern")
        try:
            re.compile(pattern or "")
        except (re.error, RecursionError) as error:
            raise InvalidError(
                "subscribePattern is not a valid regular expression",
                value=pattern,
                reason=str(error),
            ) from error
        return Selection(pattern=pattern, tenant=tenant)
    assigned = options.decoded("assign", dict[str, tuple[int, ...]], '{"orders": [0, 1]}')
    if not assigned or not all(assigned.values()):
        raise InvalidError("assign names at least one partition of each topic", value=assigned)
    return Selection(assigned=assigned, tenant=tenant)


def _shape(options: Options) -> Shape:
    is_kafka = options.choice("valueFormat", "native", "kafka") == "kafka"
    if is_kafka:
        options.refuse(
            ("includeMetadata", "columns", "schemaMode"),
            "valueFormat=kafka has the columns of the Kafka source and no others",
        )
    return Shape(
        is_kafka=is_kafka,
        include_headers=options.flag("includeHeaders", default=False),
        include_metadata=options.flag("includeMetadata", default=False),
        columns=options.names("columns"),
        predicate=options.text("predicate"),
        is_strict=options.choice("schemaMode", "strict", "drop") == "strict",
    )


_OFFSETS = dict[str, dict[int, int]]
_OFFSETS_LIKE = '{"orders": {"0": 23, "1": -2}}'


def _strategy(options: Options) -> str:
    name = "startingOffsetsByTimestampStrategy"
    timed = "startingTimestamp" in options or "startingOffsetsByTimestamp" in options
    if name in options and not timed:
        raise InvalidError("this option needs a starting time", option=name)
    return options.choice(name, "error", "latest")


def _bound(options: Options, edge: str) -> PositionBound | None:
    """Return where to start or end; if several options set it, the first one counts."""
    strategy = _strategy(options) if edge == "starting" else "latest"
    if f"{edge}Timestamp" in options:
        text = options.text(f"{edge}Timestamp") or ""
        if not text.isascii() or not text.isdigit():
            raise InvalidError(f"{edge}Timestamp is in milliseconds since 1970", value=text)
        return PositionBound(timestamp_us=int(text) * 1000, strategy=strategy)
    if f"{edge}OffsetsByTimestamp" in options:
        stamps = options.decoded(f"{edge}OffsetsByTimestamp", _OFFSETS, _OFFSETS_LIKE)
        in_us = {t: {p: ms * 1000 for p, ms in each.items()} for t, each in stamps.items()}
        if any(us < 0 for each in in_us.values() for us in each.values()):
            raise InvalidError(f"{edge}OffsetsByTimestamp holds milliseconds since 1970")
        return PositionBound(timestamps_us=in_us, strategy=strategy)
    text = (options.text(f"{edge}Offsets") or "").strip()
    if not text:
        return None
    if text.lower() in ("earliest", "latest"):
        return PositionBound(word=text.lower())
    offsets = options.decoded(f"{edge}Offsets", _OFFSETS, f"earliest, latest or {_OFFSETS_LIKE}")
    least, meaning = -1, "-1 for latest"
    if edge == "starting":
        least, meaning = -2, "-1 for latest, -2 for earliest"
    if any(offset < least for each in offsets.values() for offset in each.values()):
        raise InvalidError(f"{edge}Offsets holds offsets, {meaning}", value=text)
    return PositionBound(offsets=offsets)


def _as_of(options: Options) -> PositionBound | None:
    """Return the end of a read of the past: what was appended before a moment, to the µs."""
    text = options.text("timestampAsOf")
    if text is None:
        return None
    options.only_one(
        *("timestampAsOf", "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
    )
    try:
        at_us = us_from_datetime(datetime.fromisoformat(text.strip()))
    except ValueError as error:
        raise InvalidError(
            "timestampAsOf is a time such as 2026-11-16T23:00:00Z", value=text
        ) from error
    return PositionBound(timestamp_us=max(0, at_us), strategy="latest")


def _limits(options: Options) -> Limits:
    limits = Limits(
        options.count("maxOffsetsPerTrigger"),
        options.count("maxBytesPerTrigger"),
        options.count("minOffsetsPerTrigger"),
        options.seconds("maxTriggerDelay", TRIGGER_DELAY_S),
    )
    if limits.rows_min and limits.rows_max and limits.rows_min > limits.rows_max:
        raise InvalidError(
            "minOffsetsPerTrigger must not be larger than maxOffsetsPerTrigger",
            min=limits.rows_min,
            max=limits.rows_max,
        )
    if "maxTriggerDelay" in options and not limits.rows_min:
        raise InvalidError("maxTriggerDelay needs minOffsetsPerTrigger")
    return limits
