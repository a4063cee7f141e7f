"""The settings of a stream, stored with the settings of its topic."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from strandline.durable_streams.offsets import position_of
from strandline.values import InvalidError, Topic, TopicSettings, ValueKind
from strandline.values.instants import us_from_datetime

JSON_TYPE: Final = "application/json"
BYTES_TYPE: Final = "application/octet-stream"
METADATA_KEY: Final = "stream"
_CONTENT_TYPE: Final = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+*-]+(\s*;[\x20-\x7e]*)?", re.ASCII)
_TYPE_CHARS_MAX: Final = 200
_WHOLE: Final = re.compile(r"0|[1-9][0-9]{0,9}")


class ForkPoint(msgspec.Struct, frozen=True):
    """The point at which a stream was forked."""

    topic_id: str
    name: str
    """The name of the source's topic."""
    base: int
    """How many messages of the source belong to the fork, too."""
    offset: str | None
    """The requested offset of the fork; None for the source's end at that time."""
    sub_offset: int


class StreamSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """The settings with which a stream was created."""

    content_type: str
    ttl_s: int | None = None
    expires_at: str | None = None
    has_beginning: bool = False
    """Whether it was created with messages, or closed: it is complete once these are stored."""
    fork: ForkPoint | None = None

    @property
    def media(self) -> str:
        """The content type without parameters, to compare."""
        return media_of(self.content_type)

    @property
    def is_json(self) -> bool:
        """Whether messages are JSON values, and bodies may contain several."""
        return self.media == JSON_TYPE

    @property
    def is_text(self) -> bool:
        """Whether messages can be shown as text."""
        return self.is_json or self.media.startswith("text/")

    @property
    def expires_at_us(self) -> int | None:
        """When it expires, regardless of its use."""
        return None if self.expires_at is None else time_us(self.expires_at)

    @property
    def may_end(self) -> bool:
        """Whether it expires."""
        return self.ttl_s is not None or self.expires_at is not None

    @property
    def value_kind(self) -> ValueKind:
        """The kind of values of its topic."""
        return ValueKind.EVENT if self.is_json else ValueKind.BYTES

    def is_same(self, other: "StreamSettings") -> bool:
        """Whether two requests to create a stream are equivalent."""
        mine, theirs = self.fork, other.fork
        if (mine is None) != (theirs is None):
            return False
        if mine is not None and theirs is not None:
            asked = (mine.name, mine.offset, mine.sub_offset)
            if asked != (theirs.name, theirs.offset, theirs.sub_offset):
                return False
        return (self.media, self.ttl_s, self.expires_at_us) == (
            other.media,
            other.ttl_s,
            other.expires_at_us,
        )

    def metadata(self) -> dict[str, str]:
        """Return the metadata of the topic."""
        return {METADATA_KEY: msgspec.json.encode(self).decode()}


def settings_of(topic: TopicSettings) -> StreamSettings:
    """Return the settings of a topic's stream; defaults, if it was created as a topic.

    InvalidError for a topic that is not a stream.
    """
    if topic.partitions != 1:
        raise InvalidError(
            "a topic of several partitions is not a stream, read it under /v1/topics",
            partitions=topic.partitions,
        )
    stored = dict(topic.metadata).get(METADATA_KEY)
    if stored is not None:
        return _stored_settings(stored, topic.value_kind)
    if topic.value_kind is ValueKind.BATCH:
        raise InvalidError("a topic of batches is not a stream, read it under /v1/topics")
    return StreamSettings(JSON_TYPE if topic.value_kind is ValueKind.EVENT else BYTES_TYPE)


def _stored_settings(stored: str, kind: ValueKind) -> StreamSettings:
    """Return stored settings; InvalidError for others, since anyone may create such a topic."""
    try:
        found = msgspec.json.decode(stored, type=StreamSettings)
        check_content_type(found.content_type)
        if found.expires_at is not None:
            time_us(found.expires_at)
        if found.fork is not None:
            UUID(found.fork.topic_id)
        if found.value_kind is not kind:
            raise ValueError(f"its type is {found.content_type}, and the topic is of kind {kind}")
    except (msgspec.MsgspecError, ValueError, RecursionError, InvalidError) as error:
        raise InvalidError(
            "this topic is not a stream, its metadata `stream` are no settings of one: read it "
            "under /v1/topics, or delete it there and create the stream again",
            reason=str(error),
        ) from error
    return found


def asked_settings(
    headers: Mapping[str, str], source: StreamSettings | None, fork: ForkPoint | None
) -> StreamSettings:
    """Return the settings in the headers of a request to create a stream.

    A fork inherits the settings that they do not name.
    """
    ttl, expires_at = headers.get("stream-ttl"), headers.get("stream-expires-at")
    if ttl is not None and expires_at is not None:
        raise InvalidError("a stream has Stream-TTL or Stream-Expires-At, not both")
    if expires_at is not None:
        time_us(expires_at)
    usual = StreamSettings(BYTES_TYPE) if source is None else source
    ttl_s = None if ttl is None else whole_number("Stream-TTL", ttl)
    if ttl is None and expires_at is None:
        ttl_s, expires_at = usual.ttl_s, usual.expires_at
    content_type = check_content_type(headers.get("content-type", usual.content_type))
    return StreamSettings(content_type, ttl_s, expires_at, fork=fork)


def asked_fork(source: Topic, headers: Mapping[str, str]) -> ForkPoint:
    """Return the fork point of a request; the table resolves it."""
    offset = headers.get("stream-fork-offset")
    if offset is not None:
        position_of(offset)
    sub_offset = whole_number("Stream-Fork-Sub-Offset", headers.get("stream-fork-sub-offset", "0"))
    return ForkPoint(str(source.id), source.name, 0, offset, sub_offset)


def check_content_type(text: str) -> str:
    """Return a content type; InvalidError for anything else."""
    if len(text) > _TYPE_CHARS_MAX or not _CONTENT_TYPE.fullmatch(text):
        raise InvalidError("this is not a content type, such as application/json", value=text)
    return text


def media_of(content_type: str) -> str:
    """Return a content type without its parameters, to compare."""
    return content_type.partition(";")[0].strip().lower()


def whole_number(name: str, text: str) -> int:
    """Return the number in a header; InvalidError for any other form of it."""
    if not _WHOLE.fullmatch(text):
        raise InvalidError(f"{name} is a number from 0, in digits alone", value=text)
    return int(text)


def is_true(text: str | None) -> bool:
    """Whether a header is `true`; other values are ignored."""
    return text is not None and text.strip().lower() == "true"


def time_us(text: str) -> int:
    """Return the time in a header; InvalidError for anything else."""
    try:
        return us_from_datetime(datetime.fromisoformat(text))
    except (ValueError, InvalidError) as error:
        raise InvalidError(
            "Stream-Expires-At is a time with a zone, such as 2030-01-01T00:00:00Z", value=text
        ) from error
