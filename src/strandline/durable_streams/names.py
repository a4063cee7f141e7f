"""Conversion between the path of a stream and the name of its topic.

`/` becomes `..`. A character that a topic name cannot have becomes `.-` and two hex digits for
each byte of its UTF-8. All other characters stay: the stream `orders` is the topic `orders`.
"""

import re
from typing import Final

from strandline.values import InvalidError
from strandline.values.names import check_no_control

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]")
_AFTER_DOT: Final = re.compile(r"[A-Za-z0-9_]")
_START: Final = "0.-00"
"""How a name begins whose first character could not be the first of a name."""
_PART: Final = re.compile(r"\.\.|(?:\.-[0-9a-f]{2})+|[^.]+|\.", re.DOTALL)


def topic_name_of(path: str) -> str:
    """Return the name of the topic that holds a stream; InvalidError if no stream is there.

    Whether it is short enough for a topic is checked as for any other.
    """
    if not path:
        raise InvalidError("a stream has a path, such as /v1/stream/orders")
    check_no_control(path, "path")
    last = len(path) - 1
    name = "".join(
        _encoded(character, path[index + 1 : index + 2], is_last=index == last)
        for index, character in enumerate(path)
    )
    return _START + name if name[0] in ".-" else name


def path_of(name: str) -> str:
    """Return the path of the stream that a topic holds."""
    found = bytearray()
    for part in _PART.findall(name.removeprefix(_START)):
        if part == "..":
            found += b"/"
        elif part.startswith(".-"):
            found += bytes.fromhex(part.replace(".-", ""))
        else:
            found += part.encode()
    return found.decode(errors="replace")


def _encoded(character: str, follower: str, *, is_last: bool) -> str:
    if _PLAIN.fullmatch(character):
        return character
    if character == "/" and not is_last:
        return ".."
    if character == "." and _AFTER_DOT.fullmatch(follower):
        return "."
    return "".join(f".-{byte:02x}" for byte in character.encode())
