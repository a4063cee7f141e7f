"""A consumer's cursors in a topic, as they are stored: one value, of which few are decoded."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from strandline.log.lags import ConsumerCursor
from strandline.values import CorruptError, Tenant, Topic

if TYPE_CHECKING:
    from strandline.log.log import Log

CURSORS_PREFIX: Final = "cursors/"


def cursors_key(tenant: str | None, name: str) -> str:
    """Return the key of a consumer's cursors."""
    return f"{CURSORS_PREFIX}{tenant or ''}/{name}"


class _Document(msgspec.Struct, frozen=True):
    """The value of the key. The cursors are sorted by partition."""

    tenant: str | None
    name: str
    cursors: tuple[msgspec.Raw, ...] = ()


class _Place(msgspec.Struct, frozen=True):
    """The fields by which cursors are sorted."""

    partition: int


_encode = msgspec.json.encode
decode_cursor: Callable[[bytes], ConsumerCursor] = msgspec.json.Decoder(ConsumerCursor).decode
_decode_place = msgspec.json.Decoder(_Place).decode
_decode_document = msgspec.json.Decoder(_Document).decode


# A member that joins asks for one partition after the other, and each answer is in the one
# document of them all: looked through each time, joining would cost the square of their number.
@lru_cache(maxsize=8)
def decode_consumer(raw: bytes) -> _Document:
    """Return a consumer's document, without decoding its cursors."""
    return _decode_document(raw)


class StoredConsumer:
    """One consumer's cursors in a topic. Each call decodes those that it names, and no others."""

    def __init__(self, tenant: str | None, name: str, parts: tuple[msgspec.Raw, ...] = ()) -> None:
        self.tenant: Final = tenant
        self.name: Final = name
        self._parts = parts

    @classmethod
    def decoded(cls, raw: bytes, tenant: Tenant | None, name: str) -> "StoredConsumer":
        """Return the consumer whose value this is; CorruptError if it is none of this name."""
        try:
            found = decode_consumer(raw)
        except msgspec.MsgspecError as error:
            raise _unreadable(tenant, name) from error
        if (found.tenant, found.name) != (tenant, name):
            key = cursors_key(tenant, name)
            raise CorruptError("these cursors are of another consumer", file=key, position=0)
        return cls(found.tenant, found.name, found.cursors)

    @property
    def encoded(self) -> bytes:
        """The value to store."""
        return _encode(_Document(self.tenant, self.name, self._parts))

    @property
    def cursors(self) -> Iterator[ConsumerCursor]:
        """Each cursor, by partition."""
        return (self._decoded(each) for each in self._parts)

    def cursor(self, partition: int) -> ConsumerCursor | None:
        """Return the cursor in a partition."""
        at, is_known = self._place(self._parts, partition)
        return self._decoded(self._parts[at]) if is_known else None

    def with_cursors(self, changed: Mapping[int, ConsumerCursor]) -> "StoredConsumer":
        """Return it with these cursors in their partitions."""
        parts = [*self._parts]
        for partition in sorted(changed):
            at, is_known = self._place(parts, partition)
            parts[at : at + is_known] = [msgspec.Raw(_encode(changed[partition]))]
        return StoredConsumer(self.tenant, self.name, tuple(parts))

    def _place(self, parts: Sequence[msgspec.Raw], partition: int) -> tuple[int, bool]:
        """Return where the cursor of a partition is, or would be, and whether there is one."""
        # Mostly each partition has one, at the index of its number.
        if partition < len(parts) and self._partition(parts[partition]) == partition:
            return partition, True
        at = bisect_left(parts, partition, key=self._partition)
        return at, at < len(parts) and self._partition(parts[at]) == partition

    def _partition(self, part: msgspec.Raw) -> int:
        try:
            return _decode_place(part).partition
        except msgspec.MsgspecError as error:
            raise _unreadable(self.tenant, self.name) from error

    def _decoded(self, part: msgspec.Raw) -> ConsumerCursor:
        try:
            return decode_cursor(part)
        except msgspec.MsgspecError as error:
            raise _unreadable(self.tenant, self.name) from error


def stored_cursor(
    log: "Log", topic: Topic, consumer: str, partition: int, tenant: str | None
) -> ConsumerCursor | None:
    """Return a consumer's cursor with all that is stored with it. Raises as `log.cursor`."""
    return next(stored_cursors(log, topic, consumer, (partition,), tenant))


def stored_cursors(
    log: "Log", topic: Topic, consumer: str, partitions: Collection[int], tenant: str | None
) -> Iterator[ConsumerCursor | None]:
    """Yield the same for each of these partitions, with one read of the store."""
    found, whose, name = log._access.consumer(topic, consumer, tenant)  # noqa: SLF001 - A part of the log.
    found = log._access.with_partitions(found, partitions)  # noqa: SLF001
    return log._cursors.stored_in(found, partitions, whose, name)  # noqa: SLF001


def _unreadable(tenant: str | None, name: str) -> CorruptError:
    key = cursors_key(tenant, name)
    return CorruptError("these cursors cannot be read", file=key, position=0)
