"""The value of a record that another program has written to a Kafka topic."""

from typing import Any, Self


class SourceMessage(bytes):
    """A message's value, with its key and headers. See design 0131."""

    key: bytes | None
    """Its key as bytes; the record has it as text."""
    headers: tuple[tuple[str, bytes | None], ...]
    """Its headers in order; a name may occur several times."""
    is_null: bool
    """Whether it has no value, which deletes its key in a compacted topic."""

    def __new__(
        cls,
        value: bytes | None,
        key: bytes | None = None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
    ) -> Self:
        made = super().__new__(cls, b"" if value is None else value)
        made.key, made.headers, made.is_null = key, headers, value is None
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        value = None if self.is_null else bytes(self)
        return SourceMessage, (value, self.key, self.headers)
