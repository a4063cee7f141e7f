"""Checks every name, for every store.

A name is used unchanged or refused with the reason: it is never trimmed, folded or
replaced, so two different names never become one.
"""

import re
import unicodedata
from collections.abc import Iterable

from strandline.values.errors import InvalidError

NAME_BYTES_MAX = 200
IDEMPOTENCY_KEY_BYTES_MAX = 1024
RESERVED_PREFIX = "__strandline."
LANE_PREFIX = f"{RESERVED_PREFIX}lane."
"""The prefix of producers that remote logs create."""

_FOREIGN = re.compile(r"[^A-Za-z0-9._-]")
# Line and paragraph separators break lines, like control characters.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def check_topic_name(name: object, *, internal: bool = False) -> str:
    """Return `name`; raise InvalidError with the reason if no topic may have it.

    1 to 200 of `A-Z a-z 0-9 . _ -`, not starting with `-` or `.`, not ending in
    `.`. Names that begin with `__strandline.` are for internal topics, with
    `internal=True`.
    """
    text = _plain_name(name, "topic name")
    # Compared without case: a name that differs only by case is refused as well.
    if not internal and text.lower().startswith(RESERVED_PREFIX):
        raise InvalidError(f"topic names beginning with {RESERVED_PREFIX} are reserved", name=text)
    return text


def check_tenant_name(name: object) -> str:
    """Return `name`; raise InvalidError with the reason if no tenant may have it.

    The rule is that of topic names.
    """
    text = _plain_name(name, "tenant name")
    if text.lower().startswith(RESERVED_PREFIX):
        raise InvalidError(f"tenant names beginning with {RESERVED_PREFIX} are reserved", name=text)
    return text


def check_consumer_name(name: object) -> str:
    """Return `name`; raise InvalidError with the reason if no consumer may have it.

    Any text of 1 to 200 UTF-8 bytes in Unicode's composed form (NFC), without
    control characters and without white space at its ends. `a/b` and `a_b` are
    two consumers.
    """
    return _free_name(name, "consumer name")


def check_producer_name(name: object) -> str:
    """Return `name`; raise InvalidError with the reason if no producer may have it.

    The rule is that of consumer names. Those that begin with `__strandline.` are our own.
    """
    text = _free_name(name, "producer name")
    if text.startswith(RESERVED_PREFIX):
        raise InvalidError(
            f"producer names beginning with {RESERVED_PREFIX} are reserved", name=text
        )
    return text


def check_idempotency_key(key: object) -> str:
    """Return `key`: any text of 1 to 1,024 UTF-8 bytes. Else raise InvalidError."""
    return check_length(check_text(key, "idempotency key"), "key", IDEMPOTENCY_KEY_BYTES_MAX)


def check_case_twin(name: str, existing: Iterable[str]) -> None:
    """Raise InvalidError if `name` differs from an existing name only by case.

    Such names are the same file on a file system that ignores case, and are easily confused.
    A name that exists exactly as given is accepted.
    """
    folded = name.lower()
    for other in existing:
        if len(other) == len(name) and other != name and other.lower() == folded:
            raise InvalidError(
                "a name that differs only by case exists, use that one or choose another",
                name=name,
                existing=other,
            )


def check_text(value: object, what: str) -> str:
    """Return `value` as a plain str that UTF-8 can hold, or raise InvalidError."""
    if type(value) is str and value.isascii():
        return value
    if not isinstance(value, str):
        raise InvalidError(f"this {what} is not text, pass a str", type=type(value).__name__)
    # An exact str: a subclass could compare or print differently later.
    text = str.__str__(value)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidError(
            f"this {what} holds an unpaired surrogate, which no UTF-8 text can have",
            position=error.start,
            value=text,
        ) from None
    return text


def check_no_control(text: str, what: str) -> str:
    """Return `text`, or raise InvalidError if it holds a control character."""
    control = _CONTROL.search(text)
    if control:
        raise InvalidError(
            f"this {what} holds a control character, leave it out",
            character=control.group(),
            position=control.start(),
            value=text,
        )
    return text


def check_length(text: str, what: str, bytes_max: int) -> str:
    """Return `text` if it has 1 to `bytes_max` UTF-8 bytes, else raise InvalidError."""
    size = len(text) if text.isascii() else len(text.encode())
    if size == 0:
        raise InvalidError(f"this {what} is empty")
    if size > bytes_max:
        raise InvalidError(
            f"this {what} is too long, shorten it", bytes=size, bytes_max=bytes_max, value=text
        )
    return text


def _plain_name(name: object, what: str) -> str:
    text = check_length(check_text(name, what), what, NAME_BYTES_MAX)
    foreign = _FOREIGN.search(text)
    if foreign:
        raise InvalidError(
            f"a {what} has only ASCII letters, digits, '.', '_' and '-', replace this character",
            character=foreign.group(),
            position=foreign.start(),
            name=text,
        )
    # Covers "." and ".." too.
    if text[0] in "-.":
        raise InvalidError(f"a {what} does not begin with '-' or '.'", name=text)
    if text[-1] == ".":
        raise InvalidError(f"a {what} does not end in '.'", name=text)
    return text


def _free_name(name: object, what: str) -> str:
    text = check_length(check_text(name, what), what, NAME_BYTES_MAX)
    check_no_control(text, what)
    if text.strip() != text:
        raise InvalidError(f"a {what} neither begins nor ends with white space", name=text)
    if not unicodedata.is_normalized("NFC", text):
        raise InvalidError(
            f"a {what} is in Unicode's composed form, pass unicodedata.normalize('NFC', name)",
            name=text,
        )
    return text
