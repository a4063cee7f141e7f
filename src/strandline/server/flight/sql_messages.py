"""Messages of Flight SQL: commands of clients and their answers.

Field numbers are those of Arrow's FlightSql.proto.
"""

from collections import defaultdict
from typing import Final

from strandline.server.flight.protobuf import FieldValue, fields_in, message_of, numbers_in
from strandline.values import InvalidError

_TYPES: Final = "type.googleapis.com/arrow.flight.protocol.sql."
_ANY_BEGINS: Final = b"\x0a"


def is_sql_message(packed: bytes) -> bool:
    """Whether this is a message of Flight SQL, and not one of our JSON tickets."""
    return packed.startswith(_ANY_BEGINS)


class SqlMessage:
    """A message, by the name of its type."""

    def __init__(self, name: str, packed: bytes) -> None:
        self.name = name
        self._fields: defaultdict[int, list[FieldValue]] = defaultdict(list)
        for number, value in fields_in(packed):
            self._fields[number].append(value)

    def payload(self, number: int) -> bytes | None:
        """Return a field of bytes; if it is repeated, the last one."""
        found = self._fields[number]
        if not found:
            return None
        if isinstance(found[-1], int):
            raise InvalidError("a field has another type", command=self.name, field=number)
        return found[-1]

    def text(self, number: int) -> str | None:
        """Return a field of text."""
        found = self.payload(number)
        return None if found is None else _text(found)

    def texts(self, number: int) -> list[str]:
        """Return a repeated field of texts."""
        return [_text(each) for each in self._fields[number] if isinstance(each, bytes)]

    def flag(self, number: int) -> bool:
        """Return a field that is true or false."""
        return bool(self._fields[number] and self._fields[number][-1])

    def numbers(self, number: int) -> list[int]:
        """Return a repeated field of numbers, packed or not."""
        found: list[int] = []
        for each in self._fields[number]:
            found += [each] if isinstance(each, int) else numbers_in(each)
        return found


def opened(packed: bytes) -> SqlMessage:
    """Return the message within an Any; InvalidError for others."""
    outer = SqlMessage("Any", packed)
    kind, value = outer.text(1), outer.payload(2) or b""
    if kind is None or not kind.startswith(_TYPES):
        raise InvalidError("this is no message of Flight SQL", type=kind)
    return SqlMessage(kind.removeprefix(_TYPES), value)


def closed(name: str, *fields: tuple[int, FieldValue | str | None]) -> bytes:
    """Return a message within an Any."""
    return message_of((1, _TYPES + name), (2, message_of(*fields)))


def _text(packed: bytes) -> str:
    try:
        return packed.decode()
    except UnicodeDecodeError as error:
        raise InvalidError("a text of Flight SQL is UTF-8", reason=str(error)) from None
