"""Events in plain Python, used without the compiled core."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import itemgetter
from types import MappingProxyType
from typing import Any, TypeVar, final

from strandline.values._event_rules import (
    NO_HEADERS_JSON,
    Parts,
    check_key,
    check_kind,
    check_kind_once,
    decode_headers,
    decode_payload,
    encode_headers,
    event_text,
    events_equal,
)
from strandline.values._json import encode_exact
from strandline.values.instants import datetime_from_us, us_from_datetime
from strandline.values.payloads import event_payload_as

T = TypeVar("T")

_EACH_PART = tuple(map(itemgetter, range(5)))
_new = object.__new__
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
# A separate object, because None is a valid payload.
_NOT_DECODED = object()


@final
class Event:
    """A kind, a JSON payload, and optionally a key, headers and the time it occurred.

    The payload and the headers are encoded when the event is made: a later change
    to the objects passed in changes nothing, and an append does not encode again.
    `payload` is what every reader will see, and is shared by all holders of this
    event: treat it as read-only. Two events are equal if they mean the same, in
    whatever the order of keys in their JSON.

    `occurred_at` is the caller's own, and None if none is given: it does not default to
    now. The time of the append is the record's `timestamp`, by the log's clock.
    """

    # Pickled by a name that is the same with and without the core.
    __module__ = "strandline.values.event"
    # Few slots and one tuple, because programs make millions of events.
    __slots__ = ("_headers", "_parts", "_payload")
    __match_args__ = ("kind", "payload")

    _headers: Mapping[str, str] | None
    _parts: Parts
    _payload: Any

    def __init__(
        self,
        kind: str,
        payload: object = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        occurred_at: datetime | None = None,
    ) -> None:
        """Raise InvalidError for whatever a reader could not get back as it is.

        That is a kind that is not 1 to 200 bytes of text without control
        characters; NaN, infinities, keys that are not text, types that are not
        JSON and nesting beyond 128 levels; unpaired surrogates anywhere; and a
        time without a time zone. Taken, and read back as plain JSON: a tuple as a list,
        a member of an IntEnum or StrEnum as its value, a subclass of dict or list as one.
        """
        self._parts = (
            check_kind_once(kind) if type(kind) is str else check_kind(kind),
            encode_exact(payload),
            key if key is None or (type(key) is str and key.isascii()) else check_key(key),
            NO_HEADERS_JSON if headers is _NO_HEADERS else encode_headers(headers),
            None if occurred_at is None else us_from_datetime(occurred_at),
        )
        self._payload = _NOT_DECODED
        self._headers = None

    @classmethod
    def load(
        cls,
        kind: str,
        payload_json: bytes,
        key: str | None,
        headers_json: bytes,
        occurred_at_us: int | None,
    ) -> "Event":
        """Return the event that was stored as these parts.

        Only the kind is checked now, and InvalidError raised; the rest is checked
        when it is first read, and raises CorruptError.
        """
        event = _new(cls)
        event._parts = check_kind_once(kind), payload_json, key, headers_json, occurred_at_us
        event._payload = _NOT_DECODED
        event._headers = None
        return event

    @classmethod
    def load_many(
        cls,
        kinds: Iterable[str],
        payloads_json: Iterable[bytes],
        keys: Iterable[str | None],
        headers_json: Iterable[bytes],
        occurred_at_us: Iterable[int | None],
    ) -> "list[Event]":
        """Do what `load` does for many events, given as columns."""
        named = tuple(kinds)
        for kind in set(named):
            check_kind(kind)
        return cls._of_parts(
            zip(named, payloads_json, keys, headers_json, occurred_at_us, strict=True)
        )

    @classmethod
    def _of_parts(cls, many: Iterable[Parts]) -> "list[Event]":
        made = []
        for parts in many:
            event = _new(cls)
            event._parts = parts
            event._payload = _NOT_DECODED
            event._headers = None
            made.append(event)
        return made

    def parts(self) -> Parts:
        """Return what `load` makes the same event of."""
        return self._parts

    @staticmethod
    def columns(events: "Iterable[Event]") -> tuple[list[Any], ...]:
        """Return what `load_many` makes the same events of."""
        parts = [each._parts for each in events]
        # One column after the other, which is faster than all at once.
        return tuple(list(map(part, parts)) for part in _EACH_PART)

    @property
    def kind(self) -> str:
        """What happened, such as `order.created`."""
        return self._parts[0]

    @property
    def payload(self) -> Any:
        """The decoded JSON payload."""
        payload = self._payload
        if payload is _NOT_DECODED:
            payload = self._payload = decode_payload(self._parts[1])
        return payload

    def payload_as(self, wanted: type[T]) -> T:
        """Return the payload as a value of this type, decoded by msgspec or by pydantic.

        A new one with each call. InvalidError, with the reason, if the payload is none.
        """
        return event_payload_as(self, wanted)

    @property
    def payload_json(self) -> bytes:
        """The payload as it is stored."""
        return self._parts[1]

    @property
    def key(self) -> str | None:
        """What the event is about; events of one key keep their order."""
        return self._parts[2]

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, immutable, sorted by name."""
        headers = self._headers
        if headers is None:
            headers = self._headers = decode_headers(self._parts[3])
        return headers

    @property
    def headers_json(self) -> bytes:
        """The headers as they are stored: a JSON object, sorted by name."""
        return self._parts[3]

    @property
    def occurred_at(self) -> datetime | None:
        """When it happened, by the caller's account, in UTC; may be late or missing."""
        us = self._parts[4]
        return None if us is None else datetime_from_us(us)

    @property
    def occurred_at_us(self) -> int | None:
        """`occurred_at` in microseconds since the epoch."""
        return self._parts[4]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event):
            return NotImplemented
        return events_equal(self, other)

    def __reduce__(self) -> tuple[object, ...]:
        return Event.load, self.parts()

    def __repr__(self) -> str:
        return event_text(self)
