"""Conversion of payloads: from values that JSON does not have, and to types of the reader.

Both directions are optional: an encoder with which a log was opened, and a type that a
reader names.
"""

import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar
from uuid import UUID

import msgspec

from strandline.values._json import JSON_DEPTH_MAX, is_plain
from strandline.values.errors import InvalidError

if TYPE_CHECKING:
    from strandline.values.event import Event
    from strandline.values.record import Record

Encoder: TypeAlias = Callable[[Any], Any]
"""Called with each value that is not JSON; returns a JSON value for it."""

T = TypeVar("T")


class EventOptions(TypedDict, total=False):
    """The optional arguments of an event, see `Event`."""

    key: str | None
    headers: Mapping[str, str]
    occurred_at: dt.datetime | None


_NOWHERE: Mapping[str, object] = {}

_TEXTS = (dt.date, dt.time)
#: Types that msgspec would encode in its own way.
_LEFT = (dt.datetime, dt.date, dt.time, Decimal, UUID)


def as_json(value: Any) -> Any:
    """Return the JSON value that represents a value; an encoder for `open`.

    A datetime with a time zone, a date and a time become text in ISO 8601, a Decimal and
    a UUID text, a member of an Enum its value; a dataclass, a msgspec Struct and a pydantic
    model become objects. TypeError for anything else, InvalidError for a datetime without
    a time zone. Values inside of these are encoded in the same way.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            raise InvalidError("a datetime has a time zone, such as datetime.UTC", value=value)
        return value.isoformat()
    if isinstance(value, _TEXTS):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    return _as_object(value)


def _as_object(value: Any) -> dict[str, Any]:
    if isinstance(value, msgspec.Struct):
        found: dict[str, Any] = msgspec.to_builtins(value, builtin_types=_LEFT)
        return found
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if is_pydantic(type(value)):
        dumped: dict[str, Any] = value.model_dump(by_alias=True)
        return dumped
    raise TypeError(type(value).__name__)


def encoded_with(encoder: Encoder | None, value: Any) -> Any:
    """Return `value` with everything that is not JSON replaced by what the encoder returns.

    InvalidError, with the path, for a value that the encoder does not support. Without an
    encoder the value is returned unchanged.
    """
    if encoder is None or is_plain(value):
        return value
    return _converted(encoder, value, "$", 0)


def _converted(encoder: Encoder, value: Any, path: str, depth: int) -> Any:
    if depth > JSON_DEPTH_MAX:
        raise InvalidError("this value nests too deeply or contains itself", path=path)
    if isinstance(value, dict):
        return {
            _key(encoder, key, path): _converted(encoder, item, f"{path}.{key}", depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [
            _converted(encoder, item, f"{path}[{index}]", depth + 1)
            for index, item in enumerate(value)
        ]
    # Members of an IntEnum or StrEnum are numbers or texts, and are read back as their values.
    if value is None or isinstance(value, str | int | float):
        return value
    return _converted(encoder, _encoded(encoder, value, path), path, depth + 1)


def _key(encoder: Encoder, key: Any, path: str) -> Any:
    while not isinstance(key, str):
        found = _encoded(encoder, key, path)
        if not isinstance(found, str) and not isinstance(key, Enum):
            raise InvalidError("a key in JSON is text, pass a str", path=path, key=key)
        key = found
    return key


def _encoded(encoder: Encoder, value: Any, path: str) -> Any:
    try:
        return encoder(value)
    except TypeError as error:
        raise InvalidError(
            "the encoder takes no value of this type, convert it first",
            path=path,
            type=type(value).__name__,
        ) from error


def check_encoder(encoder: object) -> Encoder | None:
    """Return the encoder; InvalidError if it cannot be called."""
    if encoder is None or callable(encoder):
        return encoder
    raise InvalidError(
        "an encoder is a function of a value that is not JSON, such as strandline.as_json",
        type=type(encoder).__name__,
    )


def decoded_as(payload_json: bytes, wanted: type[T], place: Mapping[str, object] = _NOWHERE) -> T:
    """Return a payload as a value of this type; InvalidError, with the reason, if it fails."""
    try:
        decode = _decode_function(wanted)
    except Exception as error:  # An argument that is not a type may raise anything.
        raise _no_type(wanted, error, place) from error
    try:
        return decode(payload_json)
    except TypeError as error:
        raise _no_type(wanted, error, place) from error
    except (ValueError, RecursionError) as error:
        # Also errors of msgspec and pydantic.
        name = getattr(wanted, "__name__", wanted)
        raise InvalidError(
            "this payload is no such value", type=name, reason=_in_one_line(error), **place
        ) from error


def _decode_function(wanted: type[T]) -> Callable[[bytes], T]:
    if is_pydantic(wanted):
        return wanted.model_validate_json  # type: ignore[attr-defined, no-any-return]
    return _decoder(wanted).decode  # type: ignore[arg-type]


def _no_type(wanted: object, error: Exception, place: Mapping[str, object]) -> InvalidError:
    return InvalidError(
        "no payload can be decoded as this type, pass a dataclass, a Struct, a pydantic"
        " model or another type that msgspec knows",
        type=wanted if isinstance(error, TypeError) else type(wanted).__name__,
        reason=str(error),
        **place,
    )


def event_payload_as(self: "Event", wanted: type[T]) -> T:
    """Return the payload of an event as a value of this type."""
    return decoded_as(self.payload_json, wanted)


def record_payload_as(self: "Record", wanted: type[T]) -> T:
    """Return the payload of a record's event as a value of this type."""
    place = {"topic": self.topic, "partition": self.partition, "offset": self.offset}
    return decoded_as(self.event.payload_json, wanted, place)


def is_pydantic(wanted: object) -> bool:
    """Whether this is a class of pydantic's models; pydantic is not imported for that."""
    return isinstance(wanted, type) and hasattr(wanted, "__pydantic_validator__")


@lru_cache(maxsize=256)
def _decoder(wanted: Any) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(wanted)


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())
